"""The compose file of examples/docker: its commands run together, without containers."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from pgsluice.client import WorkQueue
from pgsluice.extras import require_packages
from support import value, wait_until
from support.object_store import free_port
from support.processes import environment

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
EXAMPLE = Path(__file__).parents[2] / "examples" / "docker"
PGSLUICE = [sys.executable, "-c", "from pgsluice.cli.main import main; main()"]


@pytest.fixture
def services():
    """The services of the compose file that run pgsluice, with their commands."""
    found = yaml.safe_load((EXAMPLE / "compose.yaml").read_text(encoding="utf-8"))["services"]
    assert found.pop("postgres")["image"] == "postgres:18"
    assert all(each["build"] == "." for each in found.values())
    assert all("PGSLUICE_DSN" in each["environment"] for each in found.values())
    return found


def commands_of(service):
    if service.get("entrypoint") == ["sh", "-c"]:
        return [shlex.split(each)[1:] for each in service["command"][0].split("&&")]
    return [service["command"]]


def test_image_has_the_extras_of_the_commands_and_the_files_of_the_worker(services):
    dockerfile = (EXAMPLE / "Dockerfile").read_text(encoding="utf-8")

    extras = re.search(r"pgsluice\[(.*?)\]", dockerfile)[1].split(",")

    assert extras == ["dashboard", "metrics"]
    assert "ENTRYPOINT" in dockerfile
    for file in re.findall(r"^COPY (\S+)", dockerfile, re.MULTILINE):
        assert (EXAMPLE / file).is_file()
    require_packages("the test needs", ["uvicorn", "prometheus_client"], "all")


@contextmanager
def running(arguments, folder, **variables):
    process = subprocess.Popen(
        [*PGSLUICE, *arguments], cwd=folder, env=environment(folder, **variables),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)
        assert process.returncode == 0, arguments


def test_an_init_reaps_the_orphans_of_handlers(services):
    assert services["worker"]["init"] is True


@pytest.mark.slow
def test_services_run_together(services, database_18, tmp_path):
    shutil.copy(EXAMPLE / "shop.py", tmp_path)
    ports = {"8899": str(free_port()), "9187": str(free_port())}
    for arguments in commands_of(services.pop("schema")):
        subprocess.run(
            [*PGSLUICE, *arguments],
            env=environment(tmp_path, PGSLUICE_DSN=database_18.url),
            check=True,
        )

    with ExitStack() as stack:
        for name, service in services.items():
            [arguments] = commands_of(service)
            arguments = [ports.get(word, word) for word in arguments]
            if name == "dashboard":
                assert service["ports"] == ["127.0.0.1:8899:8899"]
                arguments += ["--port", ports["8899"]]
            variables = {"PGSLUICE_DSN": database_18.url}
            if "PGSLUICE_DASHBOARD_PASSWORD" in service["environment"]:
                variables["PGSLUICE_DASHBOARD_PASSWORD"] = "secret"
            stack.enter_context(running(arguments, tmp_path, **variables))
        connection = stack.enter_context(database_18.connect())
        WorkQueue(connection).send("orders", json.loads('{"order": 1}'))

        wait_until(
            lambda: value(connection, "select count(*) from pgmq.a_orders") == 1, "the order"
        )
        wait_until(lambda: value(connection, "select count(*) from sluice.sample") > 0, "samples")
        wait_until(lambda: status(ports["8899"]) == 401, "the dashboard")
        wait_until(lambda: status(ports["9187"]) == 200, "the metrics")


def status(port):
    try:
        with urlopen(f"http://127.0.0.1:{port}/", timeout=30) as response:
            return response.status
    except HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0
