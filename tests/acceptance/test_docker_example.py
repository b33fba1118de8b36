"""The files of examples/docker are valid, and the commands of the services run together, without containers."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from pgsluice.cli.main import cli
from pgsluice.client import WorkQueue
from pgsluice.durations import parse_duration
from pgsluice.extras import require_packages
from pgsluice.ops.metrics.catalog import METRICS
from support import value, wait_until
from support.http_answers import status_of
from support.object_store import free_port
from support.processes import environment, run
from support.programs import installed, require
from tidy.test_docs_name_real_things import unknown_in_command

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "docker"
HARD_STOP_S = 4
PGSLUICE = [sys.executable, "-c", "from pgsluice.cli.main import main; main()"]


METRIC = re.compile(r"\bpgsluice_\w+")
PASSWORDS = {
    f"{name}_PASSWORD": "secret" for name in ("POSTGRES", "DASHBOARD", "GRAFANA")
}  # fmt: skip


def worker_metrics():
    """Return the names in the guide on monitoring, which a test compares with the metrics of a worker."""
    text = (ROOT / "docs/guides/monitoring.md").read_text(encoding="utf-8")
    names = {*re.findall(r"^\| `(pgsluice_worker_\w+)`", text, re.MULTILINE)}
    return names | {
        f"{name}{end}"
        for name in names
        if "duration" in name
        for end in ("_bucket", "_count", "_sum")
    }


def parsed(name):
    return yaml.safe_load((EXAMPLE / name).read_text(encoding="utf-8"))


@pytest.fixture
def services():
    """The services of the compose file that run pgsluice, with their commands."""
    found = parsed("compose.yaml")["services"]
    assert found.pop("postgres")["image"] == "postgres:18"
    del found["prometheus"], found["grafana"]
    assert all(each["build"]["context"] == "." for each in found.values())
    assert all("PGSLUICE_DSN" in each["environment"] for each in found.values())
    return found


def commands_of(service):
    if service.get("entrypoint") == ["sh", "-c"]:
        return [shlex.split(each)[1:] for each in service["command"][0].split("&&")]
    return [service["command"]]


def test_image_has_the_extras_of_the_commands_and_the_files_of_the_worker(services):
    dockerfile = (EXAMPLE / "Dockerfile").read_text(encoding="utf-8")
    compose = (EXAMPLE / "compose.yaml").read_text(encoding="utf-8")
    ignored = (EXAMPLE / ".dockerignore").read_text(encoding="utf-8").split()

    named = re.findall(r'(?:PGSLUICE="|PGSLUICE:-)pgsluice\[(.*?)\]', dockerfile + compose)

    assert named == ["dashboard,metrics"] * 2
    for file in re.findall(r"^COPY (?!--)(\S+)", dockerfile, re.MULTILINE):
        assert (EXAMPLE / file).exists()
        assert f"!{file.rstrip('/')}" in ignored
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


def test_image_runs_as_a_number_and_checks_the_health_port_of_the_worker(services):
    dockerfile = (EXAMPLE / "Dockerfile").read_text(encoding="utf-8")
    [port] = re.findall(r"http://127.0.0.1:(\d+)/ready", dockerfile)
    [default] = re.findall(r"^CMD (\[.*\])$", dockerfile, re.MULTILINE)

    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", dockerfile, re.MULTILINE)
    assert "healthcheck" not in services["worker"]
    assert f"--health-port={port}" in services["worker"]["command"]
    words = json.loads(default)
    assert words[words.index("--health-port") + 1] == port
    assert all(unknown_in_command(each) is None for each in (words, services["worker"]["command"]))


def test_grace_period_is_longer_than_shutdown_and_hard_stop(services):
    [option] = re.findall(r"--shutdown-timeout=(\w+)", " ".join(services["worker"]["command"]))
    grace_s = parse_duration(services["worker"]["stop_grace_period"])

    assert grace_s >= parse_duration(option) + HARD_STOP_S


def test_containers_are_confined_and_publish_ports_on_this_host_only():
    for name, service in parsed("compose.yaml")["services"].items():
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        if name != "postgres":
            assert service["read_only"] is True, name
            assert service["cap_drop"] == ["ALL"], name
        for volume in service.get("volumes", ()):
            source, _, _ = volume.partition(":")
            assert volume.endswith(":ro") == source.startswith("./"), name
            assert not source.startswith("./") or (EXAMPLE / source).is_dir(), name


@pytest.mark.parametrize(
    ("name", "file"),
    [("alerts", "prometheus/alerts.yml"), ("grafana", "grafana/dashboards/pgsluice.json")],
)
def test_files_of_prometheus_and_grafana_are_those_that_metrics_prints(name, file):
    done = CliRunner().invoke(cli, ["metrics", "--print", name])

    # Write it again with the command of docs/guides/docker.md.
    assert (EXAMPLE / file).read_text(encoding="utf-8") == done.output


def test_queries_of_the_dashboard_and_the_alerts_name_metrics_that_are_exported():
    exported = {metric.sample_name for metric in METRICS} | worker_metrics()
    for file in ("prometheus/alerts.yml", "grafana/dashboards/pgsluice.json"):
        named = {*METRIC.findall((EXAMPLE / file).read_text(encoding="utf-8"))}
        assert named
        assert named <= exported, sorted(named - exported)


def test_grafana_is_provisioned_with_the_data_source_and_the_folder_of_dashboards():
    services = parsed("compose.yaml")["services"]
    [source] = parsed("grafana/provisioning/datasources/prometheus.yaml")["datasources"]
    [provider] = parsed("grafana/provisioning/dashboards/pgsluice.yaml")["providers"]
    mounts = dict(volume.split(":")[:2] for volume in services["grafana"]["volumes"])

    assert mounts["./grafana/provisioning"] == "/etc/grafana/provisioning"
    assert mounts["./grafana/dashboards"] == provider["options"]["path"]
    assert source["isDefault"] is True
    assert source["url"] == "http://prometheus:9090"


def test_prometheus_scrapes_the_ports_of_maintenance_and_workers(services):
    [scrape] = parsed("prometheus/prometheus.yml")["scrape_configs"]
    [static], [dns] = scrape["static_configs"], scrape["dns_sd_configs"]
    command = services["maintenance"]["command"]

    assert static["targets"] == [f"maintenance:{command[command.index('--metrics-port') + 1]}"]
    assert dns["names"] == ["worker"]
    assert f"--health-port={dns['port']}" in services["worker"]["command"]


def test_hadolint_accepts_the_dockerfile():
    hadolint = installed("hadolint", "linting the Dockerfile")

    run([hadolint, "--failure-threshold", "style", "Dockerfile"], EXAMPLE)


def test_promtool_accepts_the_configuration():
    require("promtool", purpose="checking the configuration of Prometheus")

    run(["promtool", "check", "config", "prometheus/prometheus.yml"], EXAMPLE)


def test_compose_accepts_the_file():
    require("docker", purpose="checking the compose file")
    if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode != 0:
        pytest.skip("the Docker of this machine has no Compose")

    run(["docker", "compose", "config", "--quiet"], EXAMPLE, **PASSWORDS)


def test_passwords_without_a_value_are_refused_by_name():
    named = re.findall(r"\$\{(\w+):\?", (EXAMPLE / "compose.yaml").read_text(encoding="utf-8"))

    assert {*named} == {*PASSWORDS}


def test_commands_of_the_guide_name_services_files_and_options_that_exist(tmp_path):
    text = (ROOT / "docs/guides/docker.md").read_text(encoding="utf-8")
    services = parsed("compose.yaml")["services"]
    [block] = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)

    for service in re.findall(r"docker compose (?:exec|logs) (\w+)", text):
        assert service in services
    assert {*re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)} == {*services}
    for variable in re.findall(r"(\w+_PASSWORD)=", text):
        assert variable in PASSWORDS
    shutil.copytree(EXAMPLE, tmp_path / "docker")
    for line in block.splitlines():
        words, file = line.split(" > ")
        (tmp_path / "docker" / file).unlink()
        subprocess.run(
            ["bash", "-c", f"{shlex.join(PGSLUICE)} {words.removeprefix('pgsluice ')} > {file}"],
            cwd=tmp_path / "docker", check=True,
        )  # fmt: skip
        assert (tmp_path / "docker" / file).read_bytes() == (EXAMPLE / file).read_bytes()


@pytest.mark.slow
def test_services_run_together(services, database_18, tmp_path):
    shutil.copy(EXAMPLE / "shop.py", tmp_path)
    ports = {name: str(free_port()) for name in ("8080", "8899", "9187")}
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
            arguments = [word.replace("=8080", f"={ports['8080']}") for word in arguments]
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
        address = "http://127.0.0.1:{}/"
        wait_until(lambda: status_of(address.format(ports["8899"])) == 401, "the dashboard")
        wait_until(lambda: status_of(address.format(ports["9187"])) == 200, "the metrics")
        wait_until(lambda: status_of(address.format(ports["8080"])) == 200, "the worker")
