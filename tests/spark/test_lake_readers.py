"""Other tools read each kind of table that pgsluice writes, and find the rows of PostgreSQL.

Not tested, as they are no packages of PyPI: DuckDB's extensions `delta` and `iceberg`, and the jars of Delta and Iceberg
for Spark. DuckDB reads through Arrow instead, and Spark the Parquet files that the table names.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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

from pgsluice import WorkQueue
from pgsluice.lake.current_tables import DELETED, OWN_COLUMNS, lake_column
from pgsluice.lake.jobs import compact
from pgsluice.lake.names import TableName
from pgsluice.lake.tables import tables_in
from pgsluice.pipelines.analytics import analytics
from pgsluice.pipelines.archive import archive
from pgsluice.pipelines.changes import changes
from pgsluice.pipelines.events import events
from pgsluice.pipelines.options import CurrentStateOptions
from pgsluice.pipelines.replay import replay
from spark.conftest import LOG
from spark.writing import insert
from support.servers import Database

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

Rows = list[dict[str, Any]]
KEYED = """
create table "Odd, name" (
    id int primary key, "a b,c" text, "{x=1}" numeric(12, 3), "_deleted" boolean, "100%" date, at timestamptz,
    local timestamp, raw bytea, ratio float8, doc jsonb, tags text[], grid int[], item jsonb
)
"""
ROWS = """
insert into "Odd, name"
select n, case when n % 7 > 0 then 'é ' || n end, n / 8.0, n % 2 = 0, date '1960-01-01' + 100 * n,
    timestamptz '2026-03-29 00:59:59.123456Z' + n * interval '1 hour', timestamp '1999-12-31 23:59:59.5' + n * interval '1 day',
    decode(lpad(to_hex(n), 4, '0'), 'hex'), n / 3.0, jsonb_build_object('n', n), array['a', n::text],
    case when n % 3 > 0 then array[array[n, 1], array[null, 2]] end,
    case when n % 4 > 0 then jsonb_build_object('size', n, 'names', array['x', null]) end
from generate_series(1, 60) as n
"""
NESTED = {
    "public.Odd, name.grid": "array<array<int>>",
    "public.Odd, name.item": "struct<size: bigint, names: array<string>>",
}
BUCKETS = {"public.parted": 4}
# Columns that the lake holds as text, as such.
AS_STORED = 'select *, doc::text, to_json(tags)::text as tags from "Odd, name"'
OF_LOG = "select *, ev_txid::text::bigint as ev_txid from pgq.event_{}"
OF_ARCHIVE = "select *, message::text, headers::text from pgmq.a_orders"
TOTALS = "select 'orders' as queue, count(*) as sent, count(*) as done, 0 as dead, 0 as backlog from pgmq.a_orders"
ATTEMPTS = "select 'orders' as queue, read_ct as attempts, count(*) as done, 0 as dead from pgmq.a_orders group by 2"
REJECTED = """
values ('public.dated', 'day', '{"id": 2}', '0044-03-15 BC'), ('public.dated', 'day', '{"id": 3}', '0001-01-01 BC')
"""


@dataclass(frozen=True)
class Written:
    """A table in the lake, and what PostgreSQL has.

    Attributes:
        rows: Its rows, without tombstones.
        deleted: The keys of its tombstones.
        lacks: Columns of PostgreSQL that the table does not have.
        is_part: True if the table has more columns.
    """

    place: str
    rows: Rows
    deleted: frozenset[int] = frozenset()
    lacks: tuple[str, ...] = ()
    is_part: bool = False


class Lake:
    """Writes tables of each kind in one format; `name` is `delta` or `iceberg`."""

    def __init__(self, name: str, log: psycopg.Connection, folder: Path, **there: Any) -> None:
        self.name, self.log, self.folder, self.there = name, log, folder, there

    def place(self, namespace: str, table: str = "") -> str:
        if self.name == "delta":
            return str(self.folder / namespace / table)
        return ".".join(filter(None, (f"iceberg:readers/{namespace}", table)))

    def events(self, log: str, place: str) -> None:
        checkpoint = self.folder / f"{log}.checkpoint"
        events(log, place, checkpoint, once=True, **self.there)

    def changes(self) -> None:
        place, checkpoint = self.place("shop"), self.folder / "shop.checkpoint"
        state = CurrentStateOptions(buckets=BUCKETS, column_types=NESTED, on_bad_value="null")
        changes("changed", place, checkpoint, once=True, state=state, **self.there)

    def current(self, table: str) -> str:
        return str(tables_in(self.place("shop")).place_of(TableName("public", table)))

    def rows(self, query: str) -> Rows:
        with self.log.cursor(row_factory=dict_row) as cursor:
            found = cursor.execute(query).fetchall()  # type: ignore[arg-type]
        return [{lake_column(name): value for name, value in row.items()} for row in found]


@pytest.fixture(params=["delta", "iceberg"])
def lake(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    log: psycopg.Connection,
    database_18: Database,
    tmp_path: Path,
    home: Path,
) -> Lake:
    if request.param == "iceberg":
        lines = f"    uri: sqlite:///{tmp_path}/c.db\n    warehouse: {tmp_path}/warehouse\n"
        (home / ".pyiceberg.yaml").write_text(f"catalog:\n  readers:\n{lines}")
    return Lake(request.param, log, tmp_path, dsn=database_18.url, spark=spark)


def events_and_replayed(lake: Lake) -> dict[str, Written]:
    there, again = lake.place("logs", "log"), lake.place("logs", "again")
    for step in range(3):
        for number in range(10):
            insert(lake.log, f"№ {step} {number}")
        lake.events(LOG, there)
        if step == 1:
            compact(there)
    lake.log.execute("select pgq.create_queue('again')")
    replay(there, "readers", log="again", **lake.there)
    lake.events("again", again)
    lacks = ("ev_owner", "ev_retry")
    return {
        "events": Written(there, lake.rows(OF_LOG.format(1)), lacks=lacks),
        "replayed": Written(again, lake.rows(OF_LOG.format(2)), lacks=lacks),
    }


def archived(lake: Lake) -> dict[str, Written]:
    queue, place = WorkQueue(lake.log), lake.place("queues", "orders")
    queue.create("orders")
    for _ in range(2):
        queue.send_batch("orders", [{"n": n} for n in range(10)])
        queue.archive_batch("orders", [message.msg_id for message in queue.read("orders", qty=10)])
        archive("orders", place, partition_by=["read_ct"], **lake.there)
    found = {"archive": Written(place, lake.rows(OF_ARCHIVE))}
    if lake.name == "delta":  # the tables of `analytics` are Delta only
        gold = lake.folder / "gold"
        analytics(gold, queue="orders", report=False, **lake.there)
        for name, query in (("queue_totals", TOTALS), ("queue_attempts", ATTEMPTS)):
            found[name] = Written(str(gold / name), lake.rows(query), is_part=True)
    return found


def current_states(lake: Lake) -> dict[str, Written]:
    log = lake.log
    log.execute("select pgq.create_queue('changed')")
    log.execute(KEYED)
    log.execute("create table parted (id int primary key, name text)")
    log.execute("create table keyless (id int, name text)")
    log.execute("create table dated (id int primary key, day date)")
    for table in ('"Odd, name"', "parted", "keyless", "dated"):
        log.execute("select sluice.capture(%s, 'changed')", (table,))
    log.execute(ROWS)
    log.execute("insert into parted select n, 'first' from generate_series(1, 60) as n")
    log.execute("insert into keyless select n % 20, 'first' from generate_series(1, 60) as n")
    log.execute("insert into dated values (1, '2026-01-01'), (2, '0044-03-15 BC')")
    lake.changes()
    if lake.name == "delta":  # readers begin with a checkpoint of the log
        DeltaTable(lake.current("keyless")).create_checkpoint()
    log.execute('delete from "Odd, name" where id % 10 = 0')
    log.execute("""update "Odd, name" set "a b,c" = 'changed', grid = '{{7}}' where id % 9 = 0""")
    log.execute("alter table parted add column note text")
    log.execute("update parted set note = 'new', name = null where id % 5 = 0")
    log.execute("delete from parted where id > 50")
    log.execute("delete from keyless where id = 7")
    log.execute("insert into dated values (3, '0001-01-01 BC')")
    lake.changes()

    columns = ("table", "column", "key", "value")
    rejects = [dict(zip(columns, row, strict=True)) for row in log.execute(REJECTED)]  # type: ignore[arg-type]
    dated = lake.rows("select id, case when id = 1 then day end as day from dated")
    return {
        "changes": Written(
            lake.place("shop", "events"),
            lake.rows(OF_LOG.format(2)),
            lacks=("ev_owner", "ev_retry"),
        ),
        "keyed": Written(
            lake.current("Odd, name"), lake.rows(AS_STORED), frozenset(range(10, 61, 10))
        ),
        "parted": Written(
            lake.current("parted"), lake.rows("select * from parted"), frozenset(range(51, 61))
        ),
        "keyless": Written(lake.current("keyless"), lake.rows("select * from keyless")),
        "dated": Written(lake.current("dated"), dated),
        "rejects": Written(lake.place("shop", "rejects"), rejects, is_part=True),
    }


def delta_with_duckdb(place: str, spark: SparkSession) -> pa.Table:
    import duckdb

    # Not delta-rs's own file system: see "may abort the interpreter" in docs/guides/lake.md.
    dataset = DeltaTable(place).to_pyarrow_dataset(filesystem=_files(place))
    return duckdb.from_arrow(dataset).fetch_arrow_table()


def delta_with_polars(place: str, spark: SparkSession) -> pa.Table:
    polars = pytest.importorskip("polars", reason="needs the dependency group long")
    return polars.scan_delta(place).collect().to_arrow()


def delta_with_pandas(place: str, spark: SparkSession) -> pa.Table:
    pytest.importorskip("pandas", reason="needs the dependency group long")
    frame = DeltaTable(place).to_pandas(filesystem=_files(place))
    return pa.Table.from_pandas(frame, preserve_index=False)


def delta_with_spark(place: str, spark: SparkSession) -> pa.Table:
    files = [str(Path(place, path)) for path in _live_files(Path(place))]
    reader = spark.read.option("basePath", place).option("mergeSchema", "true")
    return reader.parquet(*files).toArrow()


def _files(place: str) -> SubTreeFileSystem:
    return SubTreeFileSystem(place, LocalFileSystem())


def _live_files(folder: Path) -> set[str]:
    """Return the files of the newest version of a Delta table whose commits are all there."""
    live: set[str] = set()
    for commit in sorted((folder / "_delta_log").glob("*.json")):
        for line in commit.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                live.add(unquote(action["add"]["path"]))
            if "remove" in action:
                live.discard(unquote(action["remove"]["path"]))
    return live


@contextmanager
def iceberg_table(place: str) -> Iterator[Table]:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.utils.config import Config

    # The configuration that pyiceberg has read at its import may be that of another test.
    catalog = load_catalog("readers", **(Config().get_catalog_config("readers") or {}))
    try:
        yield catalog.load_table(place.removeprefix("iceberg:readers/"))
    finally:
        catalog.close()


def iceberg_with_duckdb(place: str, spark: SparkSession) -> pa.Table:
    with iceberg_table(place) as table:
        return table.scan().to_duckdb("found").table("found").fetch_arrow_table()


def iceberg_with_polars(place: str, spark: SparkSession) -> pa.Table:
    polars = pytest.importorskip("polars", reason="needs the dependency group long")
    with iceberg_table(place) as table:
        return polars.scan_iceberg(table).collect().to_arrow()


def iceberg_with_pandas(place: str, spark: SparkSession) -> pa.Table:
    pytest.importorskip("pandas", reason="needs the dependency group long")
    with iceberg_table(place) as table:
        return pa.Table.from_pandas(table.scan().to_pandas(), preserve_index=False)


def iceberg_with_spark(place: str, spark: SparkSession) -> pa.Table:
    with iceberg_table(place) as table:
        files = [task.file.file_path for task in table.scan().plan_files()]
    return spark.read.option("mergeSchema", "true").parquet(*files).toArrow()


READERS: dict[str, Sequence[Callable[[str, SparkSession], pa.Table]]] = {
    "delta": (delta_with_duckdb, delta_with_polars, delta_with_pandas, delta_with_spark),
    "iceberg": (iceberg_with_duckdb, iceberg_with_polars, iceberg_with_pandas, iceberg_with_spark),
}


@pytest.mark.parametrize("write", [events_and_replayed, archived, current_states])
def test_other_readers_find_the_rows_of_postgresql(
    spark: SparkSession,
    lake: Lake,
    write: Callable[[Lake], dict[str, Written]],
    monkeypatch: pytest.MonkeyPatch,
):
    # Else Polars recommends a package of its own for large tables.
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    for name, written in write(lake).items():
        for read in READERS[lake.name]:
            found = read(written.place, spark).to_pylist()
            assert_same(f"{name} {read.__name__}", found, written)


def assert_same(what: str, found: Rows, written: Written) -> None:
    rows = [row for row in found if not row.get(DELETED)]
    tombstones = {row["id"] for row in found if row.get(DELETED)}
    columns = written.rows[0].keys() & rows[0].keys()
    more = rows[0].keys() - columns - set(OWN_COLUMNS)
    assert written.rows[0].keys() - columns == set(written.lacks), what
    assert written.is_part or not more, (what, more)
    assert _plain(rows, sorted(columns)) == _plain(written.rows, sorted(columns)), what
    assert tombstones == written.deleted, what


def _plain(rows: Rows, columns: list[str]) -> list[tuple[Any, ...]]:
    """Return rows in an order that does not depend on the reader, with values without its types."""
    return sorted((tuple(_value(row[name]) for name in columns) for row in rows), key=repr)


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(one) for one in value]
    if isinstance(value, dict):
        return {name: _value(one) for name, one in sorted(value.items())}
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return int(value)  # pandas has no integers with nulls
    return value
