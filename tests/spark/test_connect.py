"""Spark Connect: a server in another process, and a client with neither Java nor a classic session."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pyspark
import pytest

from pgsluice.spark.java import find_java
from support import value, wait_until
from support.object_store import free_port
from support.processes import SOURCE, kill
from support.servers import Database

DEADLINE_S = 600
PROGRAM = Path(__file__).with_name("versions_driver.py")
SPARK_HOME = Path(pyspark.__file__).parent
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture
def environ(database_18: Database, tmp_path: Path, home: Path) -> dict[str, str]:
    pytest.importorskip("grpc", reason="needs pyspark[connect]")
    pytest.importorskip("pandas", reason="needs pyspark[connect]")
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PGSLUICE_HOME": str(home),
        "PGSLUICE_DSN": database_18.url,
        "PYTHONPATH": str(SOURCE),
        "PYSPARK_PYTHON": sys.executable,
    }


@contextmanager
def process(
    command: list[str], environ: dict[str, str], folder: Path, name: str
) -> Iterator[subprocess.Popen]:
    with (folder / f"{name}.log").open("wb") as log:
        started = subprocess.Popen(
            command, env=environ, cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield started
    finally:
        kill(started)


@pytest.fixture
def server(environ: dict[str, str], tmp_path: Path, home: Path) -> Iterator[str]:
    """The URL of a server."""
    java = find_java(environ={"PATH": os.environ["PATH"], "PGSLUICE_HOME": str(home)}).home
    port = free_port()
    conf = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    options = [part for name, text in conf.items() for part in ("--conf", f"{name}={text}")]
    command = [
        str(SPARK_HOME / "bin" / "spark-submit"),
        *("--master", "local[2,4]", "--class", SERVER),
        *options,
        "spark-internal",
    ]
    with process(command, {**environ, "JAVA_HOME": str(java)}, tmp_path, "server") as started:
        log = tmp_path / "server.log"

        def is_up() -> bool:
            assert started.poll() is None, log.read_text()
            return re.search("Spark Connect server started", log.read_text()) is not None

        wait_until(is_up, "the server of Spark Connect", DEADLINE_S)
        yield f"sc://127.0.0.1:{port}"


def test_sources_sinks_and_pipelines_work(
    server: str, environ: dict[str, str], data: psycopg.Connection, tmp_path: Path
):
    command = [sys.executable, str(PROGRAM), "everything", str(tmp_path)]
    # Without Java: nothing but the server may need it.
    client = {**environ, "REMOTE": server, "JAVA_HOME": "/none"}
    with process(command, client, tmp_path, "client") as started:
        code = started.wait(DEADLINE_S)
    assert code == 0, (tmp_path / "client.log").read_text()[-6000:]

    found = json.loads((tmp_path / "found.json").read_text())
    assert found["batch"] == list(range(1, 36))
    assert found["pushed"] == 5
    assert found["stream"] == [*range(40), *range(1000, 1015), *range(2000, 2032)]
    assert max(found["batches"]) <= 10
    assert found["copied"] == [*range(1, 36), *range(101, 106)]
    assert found["events"] == 87
    assert found["archived"] == 3
    assert found["changes"] is True
    assert value(data, "select count(*) from pgmq.a_orders") >= 35
