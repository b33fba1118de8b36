"""Starting Spark: checks before the start, error messages, and the session's settings."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming import DataStreamWriter

from pgsluice.errors import ConfigurationError
from pgsluice.pipelines.paths import session_for
from pgsluice.spark.session import register, spark_session
from spark.conftest import FAST_JVM, LOG
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAMS = 4


@pytest.mark.parametrize(
    "value",
    ["postgresql://me:sesame@host/db", "host=h password = sesame", "jdbc:x://h?password=sesame"],
)
def test_a_setting_with_a_password_is_refused_and_not_quoted(value: str):
    with pytest.raises(
        ConfigurationError, match="spark.executorEnv.PGSLUICE_DSN holds a"
    ) as caught:
        spark_session(conf={"spark.executorEnv.PGSLUICE_DSN": value})
    assert "sesame" not in str(caught.value)


def test_formats_are_registered_again_and_in_further_sessions(spark: SparkSession):
    another = spark.newSession()

    register(spark)
    register(another)

    for session in (spark, another):
        # No database is created, as reading the schema needs no server.
        rows = (
            session.read.format("pgsluice").options(queue="q", dsn="host=127.0.0.1 port=1").load()
        )
        assert rows.columns[0] == "msg_id"


@pytest.mark.slow
def test_streams_that_start_at_once_leave_their_environment_intact(
    spark: SparkSession, log: psycopg.Connection, database_18: Database, tmp_path: Path
):
    log.execute(
        "select pgq.insert_event(%s, 'order', i::text) from generate_series(1, 20) i", (LOG,)
    )
    log.execute("select pgq.ticker(%s)", (LOG,))
    register(spark)  # for a map to which no stream has added its variables yet
    source = spark.readStream.format("pgsluice").options(log=LOG, dsn=database_18.url)
    rows = [source.load() for _ in range(STREAMS)]
    writers = [
        stream.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / f"checkpoint {number}"))
        .trigger(availableNow=True)
        for number, stream in enumerate(rows)
    ]

    with ThreadPoolExecutor(STREAMS) as threads:
        queries = list(threads.map(DataStreamWriter.start, writers))
    for query in queries:
        query.awaitTermination(60)

    assert [query.exception() for query in queries] == [None] * STREAMS
    sources = spark._jsparkSession.sessionState().dataSourceManager()
    environment = sources.lookupDataSource("pgsluice").dataSourceCls().envVars()
    assert environment.size() == len(set(environment.keySet())) > 1
    # Without such a map it happens in a third of the runs only.
    assert environment.getClass().getName().startswith("java.util.concurrent.")


def test_spark_finds_the_format_by_itself():
    import pyspark_pgsluice

    assert issubclass(pyspark_pgsluice.DefaultSource, DataSource)
    assert pyspark_pgsluice.DefaultSource.name() == "pgsluice"
    # Without the extra it hides no other module's format.
    program = "import sys; sys.modules['pyarrow'] = None; import pyspark_pgsluice as m; print(vars(m).get('DefaultSource'))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "None"


UNREGISTERED = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sql("create table t using pgsluice options (queue 'q', dsn 'host=127.0.0.1 port=1')")
print(spark.table("t").columns[0])
"""
UNSTARTED = """
from pgsluice.spark.session import spark_session
spark_session(master="local[x]")
"""


@pytest.mark.long
def test_a_session_of_the_callers_knows_the_format_without_a_word(tmp_path: Path):
    done = run(UNREGISTERED, tmp_path)

    assert done.stdout.splitlines()[-1:] == ["msg_id"], done.stderr[-2000:]


@pytest.mark.long
def test_a_spark_that_does_not_start_says_why_in_one_sentence(tmp_path: Path):
    done = run(UNSTARTED, tmp_path)

    error = done.stderr.splitlines()[-1]
    assert error.startswith(
        "pgsluice.errors.ConfigurationError: Spark did not start: org.apache.spark"
    )
    assert "Could not parse Master URL: 'local[x]'" in error
    assert "JAVA_HOME, which is /" in error


def run(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    fast = "".join(f" --conf '{key}={value}'" for key, value in FAST_JVM.items())
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": f"{fast} pyspark-shell"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.long
@pytest.mark.parametrize(("memory", "heap_mb"), [(None, 2048), ("700m", 700)])
def test_memory_of_java_is_limited_as_asked(memory: str | None, heap_mb: int):
    program = (
        "from pgsluice.pipelines.paths import session_for\n"
        f"context = session_for(None, 'test', driver_memory={memory!r}).sparkContext\n"
        "print(context._jvm.java.lang.Runtime.getRuntime().maxMemory() >> 20)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=240
    )

    assert int(done.stdout) == heap_mb


def test_memory_that_is_no_size_is_refused():
    with pytest.raises(ConfigurationError, match="driver_memory 'much' is not a size of memory"):
        session_for(None, "test", driver_memory="much")
