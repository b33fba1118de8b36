"""Throughput of current-state updates in the lake: on the driver, and by buckets in tables of several sizes."""

from __future__ import annotations

import atexit
import json
import random
import shutil
import tempfile
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.goal import Goal
from bench.place import Place
from bench.systems.pgsluice import Pgsluice
from pgsluice.lake.names import TableName

if TYPE_CHECKING:
    import pyarrow as pa

    from pgsluice.pipelines.current_state.pieces import Tasks
    from pgsluice.pipelines.current_state.reading import Event
    from pgsluice.pipelines.current_state.table import CurrentTable

TITLE = "20,000 updates applied to a current state: from events of a log to the commit in the lake"
UNIT = "changes a second"
SYSTEMS = [Pgsluice()]
REPEATS = 3
# Rows of the tables.
OPTIONS = {
    "spark_current_driver": 1_000_000,
    "spark_current_small": 1_000_000,
    "spark_current_middle": 10_000_000,
    "spark_current_large": 50_000_000,
}
NAME = TableName("public", "account")
CHANGES = 20_000
BUCKET_ROWS = 62_500
BUCKETS_CHANGED = 8
FILLER = "x" * 84  # as pgbench's accounts have
DELETED_KEPT_H = 168.0
_MADE_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class Question:
    """Way to apply changes to a table of one size.

    Attributes:
        name: Label in the results table.
        option: Key of `OPTIONS` with the number of rows.
        by_buckets: True to change `BUCKETS_CHANGED` buckets on executors, False to change random rows on the driver.
    """

    name: str
    option: str
    by_buckets: bool = True


DRIVER = "driver, 1,000,000 rows, random keys"
SMALL, MIDDLE, LARGE = (
    f"executors, {BUCKETS_CHANGED} buckets of {rows} rows"
    for rows in ("1,000,000", "10,000,000", "50,000,000")
)
QUESTIONS = (
    Question(DRIVER, "spark_current_driver", by_buckets=False),
    Question(SMALL, "spark_current_small"),
    Question(MIDDLE, "spark_current_middle"),
    Question(LARGE, "spark_current_large"),
)
# The cost depends on the changed data, not on the table size.
GOALS = {
    DRIVER: Goal(CHANGES / 1.5, of=None),
    MIDDLE: Goal(0.8, of=SMALL),
    LARGE: Goal(0.8, of=SMALL),
}
_lakes: dict[str, Path] = {}


def measure(_place: Place, question: Question) -> float:
    """Apply one micro-batch of changes to a table that is created on first use and kept.

    Returns:
        Changes a second.
    """
    from pgsluice.lake.tables import tables_in
    from pgsluice.pipelines.current_state.table import CurrentTable

    lake = _lakes.get(question.name)
    if lake is None:
        lake = _lakes[question.name] = Path(tempfile.mkdtemp(prefix="pgsluice-bench-current-"))
        atexit.register(shutil.rmtree, lake, ignore_errors=True)
        make(lake, OPTIONS[question.option], question.by_buckets)
    table = CurrentTable.open(tables_in(lake), NAME)
    if table is None:
        raise RuntimeError("the table is not there")
    version = table.stored.delta.version()
    first_seq = (version + 1) * 1_000_000_000
    events = updates(OPTIONS[question.option], table.bucket_count, first_seq)
    took_s = (by_executors if question.by_buckets else by_driver)(table, events, version)
    changed = rows_since(table.again(), first_seq)
    if changed != CHANGES:
        raise RuntimeError(f"{changed} rows instead of {CHANGES} are changed")
    return CHANGES / took_s


def by_driver(table: CurrentTable, events: Sequence[Event], version: int) -> float:
    """Apply changes as the pipeline does; return the duration in seconds."""
    from pgsluice.pipelines.current_state.pieces import in_turn

    took_s, _ = applied(table, events, version, in_turn)
    return took_s


def by_executors(table: CurrentTable, events: Sequence[Event], version: int) -> float:
    """Apply changes as the pipeline does; return the duration in seconds."""
    from pgsluice.pipelines.current_state.event_files import tasks_in
    from pgsluice.spark.session import spark_session

    spark = spark_session("pgsluice bench", conf={"spark.ui.enabled": "false"})
    tasks = tasks_in(spark, len(events))
    tasks(abs, [1, 2])  # starts the workers
    took_s, parts = applied(table, events, version, tasks)
    if len(parts) != BUCKETS_CHANGED:
        raise RuntimeError(f"{len(parts)} buckets are changed, not {BUCKETS_CHANGED}")
    return took_s


def applied(
    table: CurrentTable, events: Sequence[Event], version: int, tasks: Tasks[Any, Any]
) -> tuple[float, set[int]]:
    """Apply the events from a file in two row groups; return the duration and the changed parts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from pgsluice.pipelines.current_state.apply import apply
    from pgsluice.pipelines.current_state.pieces import (
        Collapsing,
        ReadingPlan,
        Update,
        collapse_files,
    )
    from pgsluice.pipelines.current_state.reading import COLUMNS

    kinds = [pa.int64(), pa.timestamp("us", "UTC"), *[pa.string()] * 4]
    columns = [
        pa.array(column, kind)
        for column, kind in zip(zip(*events, strict=True), kinds, strict=True)
    ]
    with tempfile.TemporaryDirectory(prefix="pgsluice-bench-") as folder:
        path = Path(folder, "events.parquet")
        pq.write_table(pa.table(columns, list(COLUMNS)), path, row_group_size=CHANGES // 2)
        counts = {NAME: table.bucket_count} if table.bucket_count else {}
        begin = time.perf_counter()
        how = Collapsing({NAME: ReadingPlan(table.kinds)}, {}, Path(folder), counts)
        pieces = collapse_files({version: [path]}, how, tasks)[NAME]
        apply(table, pieces, Update("bench", version, Path(folder), tasks, DELETED_KEPT_H))
        took_s = time.perf_counter() - begin
    return took_s, {number for piece in pieces for number in piece.batches}


def updates(rows: int, bucket_count: int, first_seq: int) -> list[Event]:
    """Return events of random accounts; for a bucketed table, of `BUCKETS_CHANGED` buckets."""
    dice = random.Random(first_seq)
    buckets = set(dice.sample(range(bucket_count), BUCKETS_CHANGED)) if bucket_count else set()
    source = {"schema": "public", "table": "account", "key": ["aid"], "txId": 1}
    events: dict[int, Event] = {}
    while len(events) < CHANGES:
        aid = dice.randrange(rows)
        if aid in events or (buckets and bucket(aid, bucket_count) not in buckets):
            continue
        before = {"aid": aid, "bid": 1, "abalance": 0, "filler": FILLER}
        after = {**before, "abalance": len(events) + 1}
        data = json.dumps(
            {"op": "u", "before": before, "after": after, "source": source, "ts_ms": 0}
        )
        events[aid] = (first_seq + len(events), 0, "u", data, str(NAME), None)
    return list(events.values())


def make(lake: Path, rows: int, by_buckets: bool) -> None:
    """Create a table of this many rows as the pipeline `changes` would."""
    import pyarrow as pa
    from deltalake import write_deltalake

    from pgsluice.lake.tables import tables_in
    from pgsluice.pipelines.current_state.collapse import text_of_identity
    from pgsluice.pipelines.current_state.pieces import part_of
    from pgsluice.pipelines.current_state.table import CurrentTable

    kinds = {"aid": pa.int64(), "bid": pa.int64(), "abalance": pa.int64(), "filler": pa.string()}
    count = max(BUCKETS_CHANGED, rows // BUCKET_ROWS) if by_buckets else 0
    table = CurrentTable.create(tables_in(lake), NAME, ("aid",), kinds, bucket_count=count)
    if not by_buckets:
        write_deltalake(table.stored.delta, accounts(range(rows), table.schema), mode="append")
        return
    if any(bucket(aid, count) != part_of(text_of_identity((aid,)), count) for aid in range(1000)):
        raise RuntimeError("the bucket function differs from the pipeline's")
    members: list[list[int]] = [[] for _ in range(count)]
    for aid in range(rows):
        members[bucket(aid, count)].append(aid)
    for begin in range(0, count, _MADE_AT_ONCE // BUCKET_ROWS):
        some = range(begin, min(count, begin + _MADE_AT_ONCE // BUCKET_ROWS))
        ids = [aid for number in some for aid in members[number]]
        of_bucket = [number for number in some for _ in members[number]]
        part = accounts(ids, table.schema).append_column("_bucket", pa.array(of_bucket, pa.int32()))
        write_deltalake(table.folder, part, mode="append", partition_by=["_bucket"])


def accounts(ids: Sequence[int], schema: pa.Schema) -> pa.Table:
    """Return rows of a current-state table."""
    import pyarrow as pa

    count = len(ids)
    columns = {
        "aid": pa.array(ids, pa.int64()),
        "bid": pa.repeat(pa.scalar(1, pa.int64()), count),
        "abalance": pa.repeat(pa.scalar(0, pa.int64()), count),
        "filler": pa.repeat(FILLER, count),
        "_seq": pa.repeat(pa.scalar(1, pa.int64()), count),
        "_changed_at": pa.repeat(pa.scalar(0, schema.field("_changed_at").type), count),
        "_deleted": pa.repeat(False, count),
    }
    return pa.table([columns[name] for name in schema.names], schema=schema)


def rows_since(table: CurrentTable, seq: int) -> int:
    """Count the rows changed by events from this sequence number on."""
    import pyarrow.compute as pc

    from pgsluice.lake.storage import dataset

    rows = dataset(table.folder, table.files, table.schema)
    return rows.count_rows(filter=pc.field("_seq") >= seq)


def bucket(aid: int, bucket_count: int) -> int:
    """Return the result of `part_of` 20 times as fast, for tens of millions of rows."""
    return zlib.crc32(b"['%d']" % aid) % bucket_count
