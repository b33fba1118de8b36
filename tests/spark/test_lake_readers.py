"""Other tools read each kind of table that pgsluice writes, and find the rows of PostgreSQL.

Not tested, as they are no packages of PyPI: DuckDB's extensions `delta` and `iceberg`, and the jars of Delta and Iceberg
for Spark. DuckDB reads through Arrow instead, and Spark the Parquet files that the table names.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from psycopg.rows import dict_row
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from conftest import Database
from pgsluice import WorkQueue
from pgsluice.lake.current_tables import DELETED, OWN_COLUMNS, folder_name, lake_column
from pgsluice.lake.jobs import compact
from pgsluice.pipelines.analytics import analytics
from pgsluice.pipelines.archive import archive
from pgsluice.pipelines.changes import changes
from pgsluice.pipelines.events import events
from pgsluice.pipelines.replay import replay
from spark.conftest import LOG
from spark.writing import insert

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

Rows = list[dict[str, Any]]
KEYED = """
create table "Odd, name" (
    id int primary key, "a b,c" text, "{x=1}" numeric(12, 3), "_deleted" boolean, "100%" date,
    at timestamptz, local timestamp, raw bytea, ratio float8, doc jsonb, tags text[]
)
"""
ROWS = """
insert into "Odd, name"
select n, case when n % 7 > 0 then 'é ' || n end, n / 8.0, n % 2 = 0, date '1960-01-01' + 100 * n,
    timestamptz '2026-03-29 00:59:59.123456Z' + n * interval '1 hour', timestamp '1999-12-31 23:59:59.5' + n * interval '1 day',
    decode(lpad(to_hex(n), 4, '0'), 'hex'), n / 3.0, jsonb_build_object('n', n), array['a', n::text]
from generate_series(1, 60) as n
"""

OF_LOG = "select *, ev_txid::text::bigint as ev_txid from pgq.event_{}"


@pytest.fixture
def written(
    spark: SparkSession, log: psycopg.Connection, database_18: Database, tmp_path: Path
) -> dict[str, tuple[Path, Rows]]:
    """The folder of each table in the lake, with the rows that PostgreSQL has."""
    there = {"dsn": database_18.url, "spark": spark}
    events_lake, replayed_lake = tmp_path / "events", tmp_path / "replayed"
    for step in range(3):
        for number in range(10):
            insert(log, f"№ {step} {number}")
        events(LOG, events_lake, tmp_path / "events.checkpoint", once=True, **there)
    compact(str(events_lake))
    log.execute("select pgq.create_queue('again')")
    replay(events_lake, "readers", log="again", **there)
    events("again", replayed_lake, tmp_path / "replayed.checkpoint", once=True, **there)

    queue = WorkQueue(log)
    queue.create("orders")
    for _ in range(2):
        queue.send_batch("orders", [{"n": n} for n in range(10)])
        queue.archive_batch("orders", [message.msg_id for message in queue.read("orders", qty=10)])
        archive("orders", tmp_path / "orders", partition_by=["read_ct"], **there)
    analytics(tmp_path / "gold", queue="orders", report=False, **there)

    log.execute("select pgq.create_queue('changed')")
    log.execute(KEYED)
    log.execute("create table parted (id int primary key, name text)")
    log.execute("create table keyless (id int, name text)")
    for table in ('"Odd, name"', "parted", "keyless"):
        log.execute("select sluice.capture(%s, 'changed')", (table,))
    log.execute(ROWS)
    log.execute("insert into parted select n, 'first' from generate_series(1, 60) as n")
    log.execute("insert into keyless select n % 20, 'first' from generate_series(1, 60) as n")
    shop, buckets = tmp_path / "shop", {"public.parted": 4}
    _changes(shop, buckets, there)
    log.execute('delete from "Odd, name" where id % 10 = 0')
    log.execute("""update "Odd, name" set "a b,c" = 'changed' where id % 9 = 0""")
    log.execute("alter table parted add column note text")
    log.execute("update parted set note = 'new', name = null where id % 5 = 0")
    log.execute("delete from keyless where id = 7")
    _changes(shop, buckets, there)

    queries = {
        events_lake: OF_LOG.format(1),
        replayed_lake: OF_LOG.format(2),
        shop / "events": OF_LOG.format(3),
        tmp_path / "orders": "select *, message::text, headers::text from pgmq.a_orders",
        shop / "current" / folder_name("public.Odd, name"): 'select *, doc::text, to_json(tags)::text as tags from "Odd, name"',
        shop / "current" / "public.parted": "select * from parted",
        shop / "current" / "public.keyless": "select * from keyless",
        tmp_path / "gold" / "queue_totals": (
            "select 'orders' as queue, count(*) as sent, count(*) as done, 0 as dead, 0 as backlog from pgmq.a_orders"
        ),
        tmp_path / "gold" / "queue_attempts": (
            "select 'orders' as queue, read_ct as attempts, count(*) as done, 0 as dead from pgmq.a_orders group by 2"
        ),
    }  # fmt: skip
    return {
        str(folder.relative_to(tmp_path)): (folder, _of_postgresql(log, query))
        for folder, query in queries.items()
    }


def _changes(lake: Path, buckets: dict[str, int], there: dict[str, Any]) -> None:
    changes("changed", lake, lake / "checkpoint", once=True, buckets=buckets, **there)


def _of_postgresql(connection: psycopg.Connection, query: str) -> Rows:
    with connection.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute(query).fetchall()  # type: ignore[arg-type]
    return [{lake_column(name): value for name, value in row.items()} for row in found]


def with_duckdb(folder: Path, spark: SparkSession) -> pa.Table:
    import duckdb

    # Not delta-rs's own file system: see "may abort the interpreter" in docs/guides/lake.md.
    dataset = DeltaTable(str(folder)).to_pyarrow_dataset(filesystem=_files(folder))
    return duckdb.from_arrow(dataset).fetch_arrow_table()


def with_polars(folder: Path, spark: SparkSession) -> pa.Table:
    polars = pytest.importorskip("polars", reason="needs the dependency group long")
    return polars.scan_delta(str(folder)).collect().to_arrow()


def with_pandas(folder: Path, spark: SparkSession) -> pa.Table:
    pytest.importorskip("pandas", reason="needs the dependency group long")
    frame = DeltaTable(str(folder)).to_pandas(filesystem=_files(folder))
    return pa.Table.from_pandas(frame, preserve_index=False)


def with_spark(folder: Path, spark: SparkSession) -> pa.Table:
    files = [str(folder / path) for path in _live_files(folder)]
    reader = spark.read.option("basePath", str(folder)).option("mergeSchema", "true")
    return reader.parquet(*files).toArrow()


def _files(folder: Path) -> SubTreeFileSystem:
    return SubTreeFileSystem(str(folder), LocalFileSystem())


def _live_files(folder: Path) -> set[str]:
    """Return the files of the newest version of a Delta table that has no checkpoint."""
    live: set[str] = set()
    for commit in sorted((folder / "_delta_log").glob("*.json")):
        for line in commit.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                live.add(unquote(action["add"]["path"]))
            if "remove" in action:
                live.discard(unquote(action["remove"]["path"]))
    return live


def test_delta_tables_of_each_kind_have_the_rows_of_postgresql(
    spark: SparkSession, written: dict[str, tuple[Path, Rows]]
):
    assert len(written) == 9
    for read in (with_duckdb, with_polars, with_pandas, with_spark):
        for name, (folder, expected) in written.items():
            found = read(folder, spark).to_pylist()
            rows = [row for row in found if not (row.get(DELETED))]
            assert_same(f"{name} {read.__name__}", rows, expected)


def from_iceberg_with_duckdb(table: Table, spark: SparkSession) -> pa.Table:
    return table.scan().to_duckdb("found").table("found").fetch_arrow_table()


def from_iceberg_with_polars(table: Table, spark: SparkSession) -> pa.Table:
    polars = pytest.importorskip("polars", reason="needs the dependency group long")
    return polars.scan_iceberg(table).collect().to_arrow()


def from_iceberg_with_pandas(table: Table, spark: SparkSession) -> pa.Table:
    pytest.importorskip("pandas", reason="needs the dependency group long")
    return pa.Table.from_pandas(table.scan().to_pandas(), preserve_index=False)


def from_iceberg_with_spark(table: Table, spark: SparkSession) -> pa.Table:
    files = [task.file.file_path for task in table.scan().plan_files()]
    return spark.read.parquet(*files).toArrow()


def test_an_iceberg_table_of_events_has_the_rows_of_postgresql(
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    tmp_path: Path,
    iceberg_table: Callable[[], Table],
    monkeypatch: pytest.MonkeyPatch,
):
    # Else Polars recommends a package of its own for large tables.
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    address = "iceberg:readers/events.orders"
    for step in range(3):
        for number in range(10):
            insert(log, f"№ {step} {number}")
        events(LOG, address, tmp_path / "checkpoint", dsn=database_18.url, once=True, spark=spark)
        if step == 1:
            compact(address)

    expected = _of_postgresql(log, OF_LOG.format(1))
    for read in (
        from_iceberg_with_duckdb,
        from_iceberg_with_polars,
        from_iceberg_with_pandas,
        from_iceberg_with_spark,
    ):
        assert_same(read.__name__, read(iceberg_table(), spark).to_pylist(), expected)


@pytest.fixture
def iceberg_table(home: Path, tmp_path: Path) -> Iterator[Callable[[], Table]]:
    from pyiceberg.catalog import load_catalog

    settings = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path / "warehouse")}
    lines = "".join(f"    {name}: {value}\n" for name, value in settings.items())
    (home / ".pyiceberg.yaml").write_text(f"catalog:\n  readers:\n{lines}")
    catalog = load_catalog("readers", **settings)
    yield lambda: catalog.load_table("events.orders")
    catalog.close()


def assert_same(name: str, found: Rows, expected: Rows) -> None:
    columns = sorted(expected[0].keys() & found[0].keys())
    assert expected[0].keys() - found[0].keys() <= {"ev_owner", "ev_retry"}, name
    unknown = found[0].keys() - expected[0].keys() - set(OWN_COLUMNS)
    assert name.startswith("gold/") or not unknown, (name, unknown)
    assert _plain(found, columns) == _plain(expected, columns), name


def _plain(rows: Rows, columns: list[str]) -> list[tuple[Any, ...]]:
    """Return rows in an order that does not depend on the reader, with values without its types."""
    return sorted((tuple(_value(row[name]) for name in columns) for row in rows), key=repr)


def _value(value: Any) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return int(value)  # pandas has no integers with nulls
    return value
