"""The option --master of `pgsluice pipeline run`."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from pgsluice.cli import pipeline_run
from pgsluice.cli.main import cli


@pytest.fixture
def spark_of(monkeypatch):
    """Return the Spark settings with which the tasks of a command would start."""

    def spark_of(*arguments: str) -> object:
        seen = []

        def tasks_of(pipelines, *, once, spark):
            seen.append(spark)
            raise SystemExit(0)

        monkeypatch.setattr(pipeline_run, "tasks_of", tasks_of)
        done = CliRunner().invoke(cli, ["pipeline", "run", *arguments])
        assert done.exit_code == 0, done.output
        return seen[0]

    return spark_of


EVENTS = ("events", "--log", "l", "--lake", "/lake/l", "--checkpoint", "/lake/c")


def test_pipeline_runs_on_the_given_master(spark_of):
    assert spark_of(*EVENTS) is None
    assert spark_of(*EVENTS, "--master", "spark://head:7077") == {
        "spark.master": "spark://head:7077"
    }


def test_session_on_the_given_master_has_the_given_memory(spark_of):
    assert spark_of(*EVENTS, "--driver-memory", "4g") is None
    assert spark_of(*EVENTS, "--driver-memory", "4g", "--master", "local[1]") == {
        "spark.master": "local[1]",
        "spark.driver.memory": "4g",
    }


def test_given_master_has_precedence_over_that_of_the_file(spark_of, tmp_path):
    file = tmp_path / "pipelines.toml"
    file.write_text(
        '[spark]\nmaster = "spark://other:7077"\nexecutor.memory = "4g"\n'
        '[lake]\nkind = "archive"\nqueue = "q"\nlake = "/lake/q"\n'
    )

    assert spark_of("all", "--config", str(file), "--master", "local[1]") == {
        "spark.master": "local[1]",
        "spark.executor.memory": "4g",
    }


def test_master_of_a_pipeline_without_spark_is_refused():
    arguments = ["ingest", "file.jsonl", "--queue", "q", "--master", "local[1]"]

    done = CliRunner().invoke(cli, ["pipeline", "run", *arguments])

    assert done.exit_code == 2
    assert "--master is for pipelines on Spark; ingest runs without it" in done.output
