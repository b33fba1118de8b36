"""Passwords do not appear anywhere that Spark displays or stores data."""

from __future__ import annotations

import html
import re
import urllib.request
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
from pgsluice.pipelines.archive import archive
from pgsluice.pipelines.events import events
from spark.conftest import LOG
from spark.lake_reading import lake_column
from spark.writing import insert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark redacts values that look like secrets; this one does not.
PAGES_MAX = 15
SENTINEL = "qzvkxjwpymbtrchgdlfn"


@pytest.fixture
def dsn(servers_folder: Path) -> Iterator[str]:
    """A database on loopback TCP whose password is the sentinel."""
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
            continue  # the process has ended
    return "\n".join(line for line in lines if "spark" in line)


def pages_of_spark(spark: SparkSession, run_id: str) -> list[str]:
    """Return Spark's web pages: tabs, newest links, the page of a stream's run, REST responses."""
    root = spark.sparkContext.uiWebUrl
    application = spark.sparkContext.applicationId
    tabs = ("jobs", "stages", "storage", "environment", "executors", "SQL", "StreamingQuery")
    answers = (
        "jobs",
        "stages?details=true",
        "executors",
        "environment",
        "sql?details=true&planDescription=true&length=1000",
    )
    waiting = [f"{root}/{tab}/" for tab in tabs]
    waiting += [f"{root}/api/v1/applications/{application}/{answer}" for answer in answers]
    waiting.append(f"{root}/StreamingQuery/statistics/?id={run_id}")
    pages: dict[str, str] = {}
    # Earlier tests in this session have left hundreds of pages.
    left = dict.fromkeys(("jobs/job", "stages/stage", "SQL/execution"), PAGES_MAX)
    while waiting:
        page = waiting.pop(0)
        with urllib.request.urlopen(page, timeout=60) as answer:
            pages[page] = answer.read().decode(errors="replace")
        for kind in left:
            links = set(re.findall(rf'href="(/{kind}/[^"#]*)"', pages[page]))
            for link in sorted(links, key=lambda link: (len(link), link), reverse=True):
                url = root + html.unescape(link)
                if left[kind] and url not in pages and url not in waiting:
                    left[kind] -= 1
                    waiting.append(url)
    return list(pages.values())


@pytest.mark.slow
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

    def reading(**options: str):
        reader = spark.read.format("pgsluice")
        return reader.options(dsnFile=str(secret_file), pushdown="true", **options)

    rows = reading(queue="q").load()
    assert rows.where("msg_id > 0").count() == 1
    rows.explain("extended")
    assert reading(log=LOG).load().count() == 1
    writing = rows.select("message").write.format("pgsluice").mode("append")
    writing.options(dsnFile=str(secret_file), queue="q").save()

    # Errors of refused and unreachable servers do not contain it.
    impatient = reading(queue="q", **{"connect.retries": "0"}).load()
    refused = dsn.replace("carrier", "stranger")
    secret_file.write_text(refused)
    with pytest.raises(Exception, match="authentication failed") as refused_reading:
        impatient.collect()
    unreachable = f"postgresql://carrier:{SENTINEL}@127.0.0.1:1/postgres"
    with pytest.raises(ConnectionFailedError, match="check that the server runs") as streaming:
        events(LOG, tmp_path / "l2", tmp_path / "c2", dsn=unreachable, once=True, spark=spark)
    with pytest.raises(Exception, match="holds a password") as naming:
        spark.read.format("pgsluice").options(dsn=dsn, queue="q").load()
    with pytest.raises(Exception, match="holds a password") as planning:
        # With a given schema, Spark builds a plan before we see the options.
        spark.read.schema("msg_id long").format("pgsluice").options(
            dsn=dsn, queue="q"
        ).load().collect()
    for caught in (refused_reading, streaming, naming, planning):
        shown += [str(caught.value), repr(caught.value), *format_exception(caught.value)]

    shown += [f"{key}={value}" for key, value in spark.sparkContext.getConf().getAll()]
    shown += [f"{key}={value}" for key, value in spark.conf.getAll.items()]
    shown += list(capfd.readouterr())
    shown.append(processes_of_spark())
    shown += pages_of_spark(spark, str(stream.query.runId))
    kept = [path for path in [*event_log.rglob("*"), *tmp_path.rglob("*")] if path.is_file()]
    shown += [path.read_text(errors="replace") for path in kept if path != secret_file]
    assert any(
        "SparkListenerApplicationStart" in text for text in shown
    )  # the event log was searched
    assert any("Streaming Query Statistics" in text for text in shown)  # and a page of a stream
    assert any(
        "Details for Query" in text and "pgsluice" in text for text in shown
    )  # and one of a plan
    assert [text for text in shown if SENTINEL in text] == []
