"""A password is in no place where Spark shows or keeps things."""

from __future__ import annotations

import secrets
import string
from collections.abc import Iterator
from pathlib import Path
from traceback import format_exception
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import conninfo

from pgsluice import schema
from pgsluice.client import WorkQueue
from pgsluice.embedded import EmbeddedServer
from pgsluice.errors import ConnectionFailedError
from pgsluice.spark.pipelines.archive import archive
from pgsluice.spark.pipelines.events import events
from spark.conftest import LOG
from spark.lake_reading import lake_column
from spark.writing import insert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark hides values that look like a secret: this one does not.
SENTINEL = "".join(secrets.choice(string.ascii_lowercase) for _ in range(20))


@pytest.fixture
def dsn(servers_folder: Path) -> Iterator[str]:
    """A database on loopback TCP that asks for the sentinel as password."""
    server = EmbeddedServer(servers_folder / "tcp", tcp=True, options={"fsync": "off"})
    server.start()
    try:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(f"create role carrier login superuser password '{SENTINEL}'")
            schema.install(connection)
            connection.execute("select pgq.create_queue(%s)", (LOG,))
        parts = conninfo.conninfo_to_dict(server.url())
        yield f"postgresql://carrier:{SENTINEL}@{parts['host']}:{parts['port']}/{parts['dbname']}"
    finally:
        server.stop("immediate")


def processes_of_spark() -> str:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_text(errors="replace"))
        except OSError:
            continue  # it ended meanwhile
    return "\n".join(line for line in lines if "spark" in line)


def test_a_password_never_reaches_spark(
    spark: SparkSession, event_log: Path, dsn: str, tmp_path: Path, capfd: pytest.CaptureFixture
):
    with psycopg.connect(dsn, autocommit=True) as connection:
        insert(connection, "event")
        WorkQueue(connection).create("q")
        WorkQueue(connection).send("q", {"n": 1})
    shown: list[str] = []

    stream = events(
        LOG, tmp_path / "lake", tmp_path / "checkpoint", dsn=dsn, once=True, spark=spark
    )
    assert lake_column(tmp_path / "lake", "ev_data") == ["event"]
    shown.append(str(stream.query.lastProgress))
    assert archive("q", tmp_path / "q", table="queue", dsn=dsn, spark=spark).rows == 1

    secret_file = tmp_path / "dsn"
    secret_file.touch(mode=0o600)
    secret_file.write_text(dsn)
    rows = spark.read.format("pgsluice").options(dsnFile=str(secret_file), queue="q").load()
    assert rows.count() == 1
    rows.explain("extended")

    # Refused or out of reach: the text of the errors is free of it.
    refused = dsn.replace("carrier", "stranger")
    secret_file.write_text(refused)
    with pytest.raises(Exception, match="authentication failed") as reading:
        rows.collect()
    unreachable = f"postgresql://carrier:{SENTINEL}@127.0.0.1:1/postgres"
    with pytest.raises(ConnectionFailedError, match="check that the server runs") as streaming:
        events(LOG, tmp_path / "l2", tmp_path / "c2", dsn=unreachable, once=True, spark=spark)
    with pytest.raises(Exception, match="holds a password") as naming:
        spark.read.format("pgsluice").options(dsn=dsn, queue="q").load().collect()
    for caught in (reading, streaming, naming):
        shown += [str(caught.value), repr(caught.value), *format_exception(caught.value)]

    shown += [f"{key}={value}" for key, value in spark.sparkContext.getConf().getAll()]
    shown += [f"{key}={value}" for key, value in spark.conf.getAll.items()]
    shown += list(capfd.readouterr())
    shown.append(processes_of_spark())
    kept = [path for path in [*event_log.rglob("*"), *tmp_path.rglob("*")] if path.is_file()]
    shown += [path.read_text(errors="replace") for path in kept if path != secret_file]
    assert any("StreamingQuery" in text for text in shown)  # Spark's event log was among it
    assert [text for text in shown if SENTINEL in text] == []
