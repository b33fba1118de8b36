"""`pgsluice pipeline`, in the test's own process so that it finds Spark running."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from click.testing import CliRunner, Result

from pgsluice.cli.pipeline import pipeline
from pgsluice.client import WorkQueue
from pgsluice.errors import LogNotFoundError
from spark.conftest import LOG
from spark.lake_reading import lake_column
from spark.writing import insert
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(database: Database, *arguments: object) -> Result:
    return CliRunner().invoke(
        pipeline, [*map(str, arguments), "--dsn", database.url], catch_exceptions=False
    )


@pytest.mark.slow
def test_once_exports_existing_events_and_prints_the_count(
    spark: SparkSession, log: psycopg.Connection, database_18: Database, tmp_path: Path
):
    insert(log, "event")
    lake, checkpoint = tmp_path / "lake", tmp_path / "checkpoint"
    arguments = (
        "run",
        "events",
        "--log",
        LOG,
        "--lake",
        lake,
        "--checkpoint",
        checkpoint,
        "--once",
    )

    first = run(database_18, *arguments, "--json")
    second = run(database_18, *arguments)

    answer = json.loads(first.stdout)
    assert (answer["pipeline"], answer["rows"], answer["offset"]["tick"]) == ("events", 1, 2)
    assert second.stdout.startswith("events: 0 rows in 0 lake commits")
    assert lake_column(lake, "ev_data") == ["event"]


@pytest.mark.slow
def test_the_sections_of_a_file_run_one_after_the_other(
    spark: SparkSession, log: psycopg.Connection, database_18: Database, tmp_path: Path
):
    insert(log, "event")
    section = '[%s]\nkind = "events"\nlog = "log"\nlake = "%s"\ncheckpoint = "%s.checkpoint"\n'
    file = tmp_path / "pipelines.toml"
    file.write_text("".join(section % (name, name, name) for name in ("b", "a")), encoding="utf-8")

    answer = run(database_18, "run", "all", "--config", file, "--once", "--json")

    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [(one["pipeline"], one["rows"]) for one in lines] == [("b", 1), ("a", 1)]
    assert lake_column(tmp_path / "a", "ev_data") == lake_column(tmp_path / "b", "ev_data")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("event", "--log", LOG), "No such pipeline kind 'event'. Did you mean 'events'?"),
        (("--once",), "No such option '--once'"),
        (("orders", "--config"), "Option '--config' requires an argument"),
    ],
)
def test_invalid_argument_is_named(
    database_18: Database, arguments: tuple[str, ...], expected: str
):
    result = CliRunner().invoke(pipeline, ["run", *arguments])

    assert result.exit_code == 2
    assert expected in " ".join(result.stderr.split())


@pytest.mark.slow
def test_a_queue_is_copied(
    spark: SparkSession, db: psycopg.Connection, database_18: Database, tmp_path: Path
):
    WorkQueue(db).create("q")
    WorkQueue(db).send("q", {"n": 1})

    arguments = ("run", "archive", "--queue", "q", "--table", "queue", "--lake", tmp_path / "l")
    result = run(database_18, *arguments, "--once")

    assert result.stdout == "archive: 1 row in 1 lake commit\n"


def test_an_unknown_log_is_named_before_spark_starts(database_18: Database, tmp_path: Path):
    with pytest.raises(LogNotFoundError, match="event log 'none' does not exist"):
        run(
            database_18,
            "run",
            "events",
            "--log",
            "none",
            "--lake",
            tmp_path / "l",
            "--checkpoint",
            tmp_path,
        )
