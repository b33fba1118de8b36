"""Starting Spark: what is refused before, what is said when it fails, and what a session knows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.datasource import DataSource

from pgsluice.errors import ConfigurationError
from pgsluice.spark.session import register, spark_session
from spark.conftest import FAST_JVM

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        # Not made: the schema alone needs no server.
        rows = (
            session.read.format("pgsluice").options(queue="q", dsn="host=127.0.0.1 port=1").load()
        )
        assert rows.columns[0] == "msg_id"


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

    said = done.stderr.splitlines()[-1]
    assert said.startswith(
        "pgsluice.errors.ConfigurationError: Spark did not start: org.apache.spark"
    )
    assert "Could not parse Master URL: 'local[x]'" in said
    assert "JAVA_HOME, which is /" in said


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
