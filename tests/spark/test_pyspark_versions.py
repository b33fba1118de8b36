"""Each supported version of PySpark, in an environment of its own: sources, sinks and pipelines.

`PGSLUICE_SPARK_PYTHONS` names the Python programs of existing environments with PySpark 4.0, 4.1 and
4.2, separated by colons. Without it each environment is installed from PyPI.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from pgsluice.spark.java import find_java
from support import rows, value, wait_until
from support.processes import SOURCE, kill
from support.servers import Database

DEADLINE_S = 600
ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("versions_driver.py")
OLDER = ("4.0", "4.1", "4.2")
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Python programs by version; the environments are installed when they are first needed."""
    given = os.environ.get("PGSLUICE_SPARK_PYTHONS", "")
    return {version_of(python): python for python in given.split(":") if python}


def version_of(python: str) -> str:
    command = [python, "-c", "import pyspark; print(pyspark.__version__)"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return answer.stdout.strip().rpartition(".")[0]


@pytest.fixture
def python(
    request: pytest.FixtureRequest,
    pythons: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> str:
    version = request.param
    if version not in pythons:
        pythons[version] = str(installed(version, tmp_path_factory.mktemp(f"spark-{version}-")))
    return pythons[version]


def installed(version: str, folder: Path) -> Path:
    """Install one version of PySpark and the other packages of the extra `iceberg`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(one for name in ("spark", "spark-libs", "iceberg") for one in extras.get(name, ())),
    ]
    wanted = [one for one in wanted if not one.startswith(("pgsluice", "pyspark"))]
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=DEADLINE_S)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--retries", "1"]
    answer = subprocess.run(
        [*pip, f"pyspark=={version}.*", *wanted],
        capture_output=True, text=True, timeout=DEADLINE_S,
    )  # fmt: skip
    if answer.returncode:
        pytest.skip(f"PySpark {version} cannot be installed: {answer.stderr.splitlines()[-1]}")
    return folder / "bin" / "python"


class Runs:
    """Runs of the program with one Python."""

    def __init__(self, python: str, database: Database, folder: Path, home: Path) -> None:
        environ = {"PATH": os.environ["PATH"], "PGSLUICE_HOME": str(home)}
        self.python, self.folder = python, folder
        self.environ = {
            **environ,
            "HOME": str(folder),
            "JAVA_HOME": str(find_java(environ=environ).home),
            "PGSLUICE_DSN": database.url,
            "PYTHONPATH": str(SOURCE),
        }

    @contextmanager
    def running(self, what: str) -> Iterator[subprocess.Popen]:
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [self.python, str(PROGRAM), what, str(self.folder)],
                env=self.environ,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            kill(process)

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-6000:]


@pytest.fixture
def runs(python: str, database_18: Database, tmp_path: Path, home: Path) -> Runs:
    return Runs(python, database_18, tmp_path, home)


@pytest.mark.parametrize("python", OLDER, indirect=True)
def test_each_source_sink_and_pipeline_works(runs: Runs, data: psycopg.Connection):
    with runs.running("everything") as process:
        assert process.wait(DEADLINE_S) == 0, runs.log()

    found = json.loads((runs.folder / "found.json").read_text())
    version = found.pop("version")
    assert found.pop("batch") == list(range(1, 36))
    assert found.pop("range") == 40
    pushed = found.pop("pushed")
    if version.startswith("4.0."):
        assert f"pushdown requires PySpark 4.1 or newer, and this is {version}" in pushed
    else:
        assert pushed == 5
    # The second micro-batch and later ones are limited, to ticks of eight events.
    batches = found.pop("batches")
    assert sum(batches) == 32
    assert max(batches) <= (32 if version < "4.2" else 10)
    assert found.pop("stream") == [*range(40), *range(1000, 1015), *range(2000, 2032)]
    assert found.pop("copied") == [*range(1, 36), *range(101, 106)]
    assert value(data, "select count(*) from pgmq.a_orders") >= 35
    assert found == {
        "events": 87,
        "archived": 3,
        "analytics": found["analytics"],
        "changes": True,
    }
    assert_current_state(runs, data)


def assert_current_state(runs: Runs, data: psycopg.Connection) -> None:
    from pgsluice.verify import verify_current

    table = runs.folder / "changes" / "current" / "public.account"
    assert verify_current("account", table, dsn=runs.environ["PGSLUICE_DSN"]).equal
    names = rows(data, "select distinct name from account order by name")
    assert names == [("a12",), ("b",), ("c",), ("d",)]


@pytest.mark.parametrize("python", OLDER, indirect=True)
def test_killed_stream_sends_each_event_to_the_queue_once(runs: Runs, data: psycopg.Connection):
    copied = "select count(*) from pgmq.q_copies"
    sent = 40

    def insert(count: int) -> None:
        nonlocal sent
        for _ in range(count):  # a micro-batch does not divide a transaction
            data.execute("select pgq.insert_event('log', 'n', %s)", (str(sent),))
            sent += 1

    for _ in range(3):
        insert(100)
        with runs.running("copy") as process:
            # The first micro-batch has everything with older versions, the next ones twenty events.
            for wanted in (sent, sent + 50):

                def has_copied(wanted: int = wanted) -> bool:
                    assert process.poll() is None, runs.log()
                    return value(data, copied) >= wanted

                wait_until(has_copied, "messages of the stream", DEADLINE_S)
                insert(200)
    # Before 4.2, Spark ends the first run after the interrupted micro-batch.
    for _ in range(2):
        with runs.running("finish") as process:
            assert process.wait(DEADLINE_S) == 0, runs.log()

    messages = [n for (n,) in rows(data, "select message::int from pgmq.q_copies order by 1")]
    assert messages == list(range(sent))
