"""`analytics`: the metrics equal those of a plain computation over the same messages."""

from __future__ import annotations

import json
import math
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from pgsluice.cli.pipeline import pipeline
from pgsluice.errors import ConfigurationError, QueueNotFoundError
from pgsluice.lake.delta.opening import open_dataset
from pgsluice.pipelines.analytics import analytics
from support.servers import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOW_S = 60
MESSAGES = """
    insert into pgmq.a_q (msg_id, read_ct, enqueued_at, last_read_at, archived_at, vt)
    select n, 1 + (n % 7 = 0)::int * (n % 3)::int, s.at, s.at + s.wait, s.at + s.wait + s.work, s.at
    from generate_series(1, 2000) as n
    cross join lateral (
        select '2026-01-31 10:00:00Z'::timestamptz + n * interval '0.25 seconds' as at,
            (n * 7919 % 1000) * interval '0.001 seconds' as wait,
            (n * 104729 % 300) * interval '0.0001 seconds' as work
    ) as s
"""


def nearest_rank(values: list[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def seconds(later: datetime, earlier: datetime) -> float:
    return (later - earlier).total_seconds()


def gold_rows(folder: Path, table: str, *by: str) -> list[dict[str, Any]]:
    rows = open_dataset(folder / table).to_table().to_pylist()
    return sorted(rows, key=lambda row: tuple(row[name] for name in by))


def windows_of(rows: list[dict[str, Any]], column: str) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        at = int(row[column].timestamp()) // WINDOW_S * WINDOW_S
        found.setdefault(at, []).append(row)
    return found


@pytest.fixture
def queue(db: psycopg.Connection[Any], tmp_path: Path) -> psycopg.Connection[Any]:
    """Queue q with 2,000 archived messages in database and lake, a dead letter and two messages."""
    db.execute("select pgmq.create('q')")
    db.execute(MESSAGES)
    db.execute(
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, dead_at, reason) values"
        " ('q', 5001, 5, '2026-01-31 10:00:01Z', '2026-01-31 10:01:30Z', 'attempts')"
    )
    db.execute(
        "insert into pgmq.q_q (vt, enqueued_at) values (now(), '2026-01-31 10:00:02Z'), (now(), '2026-01-31 10:09:02Z')"
    )
    cursor = db.execute(
        "select msg_id, read_ct, enqueued_at, last_read_at, archived_at from pgmq.a_q where msg_id <= 1100"
    )
    names = [column.name for column in cursor.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in cursor]
    moment = pa.timestamp("us", "UTC")
    schema = pa.schema(
        {"msg_id": pa.int64(), "read_ct": pa.int32()}
        | dict.fromkeys(("enqueued_at", "last_read_at", "archived_at"), moment)
    )
    write_deltalake(str(tmp_path / "lake" / "q"), pa.Table.from_pylist(rows, schema))
    return db


@pytest.mark.slow
def test_the_figures_are_those_of_a_plain_computation_over_lake_and_archive(
    spark: SparkSession, queue: psycopg.Connection[Any], database_18: Database, tmp_path: Path
):
    cursor = queue.execute("select * from pgmq.a_q")
    names = [column.name for column in cursor.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in cursor]
    queue.execute("delete from pgmq.a_q where msg_id <= 1000")
    gold = tmp_path / "gold"

    progress = analytics(
        gold, lake=tmp_path / "lake", window_s=WINDOW_S, dsn=database_18.url, spark=spark
    )

    assert progress.rows == 2003
    found = {
        int(row["window_start"].timestamp()): row
        for row in gold_rows(gold, "queue_windows", "window_start")
    }
    ended, sent = windows_of(rows, "archived_at"), windows_of(rows, "enqueued_at")
    assert found.keys() == ended.keys() | sent.keys() | {
        max(found)
    }  # the remaining messages were sent last
    outstanding = 0
    for at, row in sorted(found.items()):
        done = ended.get(at, [])
        dead = int(datetime.fromtimestamp(at, row["window_start"].tzinfo).minute == 1)
        extra = int(at == min(found)) * 2 + int(row["window_start"].minute == 9)
        outstanding += len(sent.get(at, [])) + extra - len(done) - dead
        latencies = [seconds(r["archived_at"], r["enqueued_at"]) for r in done]
        works = [seconds(r["archived_at"], r["last_read_at"]) for r in done]
        assert (row["done"], row["dead"], row["backlog"]) == (len(done), dead, outstanding)
        assert row["sent"] == len(sent.get(at, [])) + extra
        assert row["retries"] == sum(r["read_ct"] - 1 for r in done) + 4 * dead
        assert row["retried"] == sum(r["read_ct"] > 1 for r in done) + dead
        if not done:
            assert row["latency_p50_s"] is None
            continue
        for percent in (50, 95, 99):
            assert row[f"latency_p{percent}_s"] == nearest_rank(latencies, percent)
            assert row[f"work_p{percent}_s"] == nearest_rank(works, percent)
        assert row["latency_max_s"] == max(latencies)
    (total,) = gold_rows(gold, "queue_totals", "queue")
    everything = [seconds(r["archived_at"], r["enqueued_at"]) for r in rows]
    assert (total["sent"], total["done"], total["dead"], total["backlog"]) == (2003, 2000, 1, 2)
    assert total["latency_p99_s"] == nearest_rank(everything, 99)
    assert [(row["attempts"], row["done"], row["dead"]) for row in gold_rows(gold, "queue_attempts", "attempts")] == [
        (n, sum(r["read_ct"] == n for r in rows), 0) for n in (1, 2, 3)
    ] + [(5, 0, 1)]  # fmt: skip
    assert (gold / "report.html").read_text(encoding="utf-8").count("<svg") == 4


@pytest.mark.slow
def test_since_leaves_earlier_windows_as_they_are_and_counts_later_ones_in_full(
    spark: SparkSession, queue: psycopg.Connection[Any], database_18: Database, tmp_path: Path
):
    gold = tmp_path / "gold"
    how: dict[str, Any] = {"window_s": WINDOW_S, "report": False, "dsn": database_18.url, "spark": spark}  # fmt: skip
    with pytest.raises(ConfigurationError, match="run the pipeline analytics without since first"):
        analytics(gold, since="2026-01-31T10:05", **how)
    analytics(gold, queue="q", **how)
    before = gold_rows(gold, "queue_windows", "window_start")
    # Messages removed by retention are still counted.
    queue.execute("delete from pgmq.a_q where archived_at < '2026-01-31T10:05Z'")

    analytics(gold, queue=["q"], since="2026-01-31T10:05", **how)

    after = gold_rows(gold, "queue_windows", "window_start")
    assert [row | {"measured_at": 0} for row in after] == [row | {"measured_at": 0} for row in before]  # fmt: skip
    assert after[-1]["measured_at"] > after[0]["measured_at"] == before[0]["measured_at"]


@pytest.mark.slow
def test_metrics_command_measures_all_queues_and_reports_counts(
    spark: SparkSession, queue: psycopg.Connection[Any], database_18: Database, tmp_path: Path
):
    queue.execute("select pgmq.create('empty')")
    arguments = ["run", "analytics", "--gold", tmp_path / "gold", "--once", "--json", "--no-report"]

    answer = CliRunner().invoke(
        pipeline, [*map(str, arguments), "--dsn", database_18.url], catch_exceptions=False
    )

    assert json.loads(answer.stdout)["rows"] == 2003
    assert not (tmp_path / "gold" / "report.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize("lake", ["{}", "{}.q"])
def test_archives_in_an_iceberg_catalog_count(
    spark: SparkSession,
    queue: psycopg.Connection[Any],
    database_18: Database,
    tmp_path: Path,
    iceberg: str,
    lake: str,
):
    pytest.importorskip("pyiceberg", reason="needs pgsluice[iceberg]")
    archived = spark.read.format("pgsluice").option("dsn", database_18.url)
    archived = archived.option("queue", "q").option("table", "archive").load()
    archived.where("msg_id <= 1100").write.format("pgsluice-iceberg").mode("append").save(
        f"{iceberg}.q"
    )
    queue.execute("delete from pgmq.a_q where msg_id <= 1000")

    progress = analytics(
        tmp_path / "gold",
        queue="q",
        lake=lake.format(iceberg),
        report=False,
        dsn=database_18.url,
        spark=spark,
    )

    assert progress.rows == 2003
    (total,) = gold_rows(tmp_path / "gold", "queue_totals", "queue")
    assert (total["done"], total["dead"], total["backlog"]) == (2000, 1, 2)


def test_gold_tables_in_an_iceberg_catalog_are_refused(database_18: Database):
    with pytest.raises(ConfigurationError, match="the gold 'iceberg:lake/gold' is an Iceberg"):
        analytics("iceberg:lake/gold", dsn=database_18.url)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"queue": "none"}, QueueNotFoundError, "queue 'none' does not exist"),
        ({"window_s": 0}, ConfigurationError, "window_s is 0; use whole seconds"),
        ({"since": "today"}, ConfigurationError, "since = 'today' is not a valid time"),
        ({"lake": "{}/x"}, ConfigurationError, "holds no archive of q"),
    ],
)
def test_invalid_option_is_named_before_spark_starts(
    db: psycopg.Connection[Any],
    database_18: Database,
    tmp_path: Path,
    options: dict[str, Any],
    error: type[Exception],
    message: str,
):
    db.execute("select pgmq.create('q')")
    given = {
        key: value.format(tmp_path) if isinstance(value, str) else value
        for key, value in options.items()
    }

    with pytest.raises(error, match=message):
        analytics(tmp_path / "gold", dsn=database_18.url, **given)
