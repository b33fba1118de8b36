"""How fast is a current state in the lake kept: by the driver alone, and bucket by bucket in tables of any size?"""

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
from typing import TYPE_CHECKING

from bench.goal import Goal
from bench.place import Place
from bench.systems.pgsluice import Pgsluice

if TYPE_CHECKING:
    import pyarrow as pa

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
NAME = "public.account"
CHANGES = 20_000
BUCKET_ROWS = 62_500
BUCKETS_CHANGED = 8
FILLER = "x" * 84  # as pgbench's accounts have
DELETED_KEPT_H = 168.0
_MADE_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class Question:
    """One way to apply changes, to a table of one size.

    Attributes:
        name: What the table of results calls it.
        option: Which of `OPTIONS` has the table's rows.
        by_buckets: Whether executors apply them, to `BUCKETS_CHANGED` of its buckets; else the driver, anywhere.
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
# What it costs grows with what is changed, and not with the table.
GOALS = {
    DRIVER: Goal(CHANGES / 1.5, of=None),
    MIDDLE: Goal(0.8, of=SMALL),
    LARGE: Goal(0.8, of=SMALL),
}
_lakes: dict[str, Path] = {}


def measure(_place: Place, question: Question) -> float:
    """Apply one micro-batch of changes to a table that is made the first time and kept.

    Returns:
        Changes a second.
    """
    from pgsluice.pipelines.current_state.table import CurrentTable

    lake = _lakes.get(question.name)
    if lake is None:
        lake = _lakes[question.name] = Path(tempfile.mkdtemp(prefix="pgsluice-bench-current-"))
        atexit.register(shutil.rmtree, lake, ignore_errors=True)
        make(lake, OPTIONS[question.option], question.by_buckets)
    table = CurrentTable.open(lake, NAME)
    if table is None:
        raise RuntimeError("the table is not there")
    version = table.delta.version()
    first_seq = (version + 1) * 1_000_000_000
    events = updates(OPTIONS[question.option], table.bucket_count, first_seq)
    took_s = (by_executors if question.by_buckets else by_driver)(table, events, version)
    changed = rows_since(table.again(), first_seq)
    if changed != CHANGES:
        raise RuntimeError(f"{changed} rows instead of {CHANGES} are changed")
    return CHANGES / took_s


def by_driver(table: CurrentTable, events: Sequence[Event], version: int) -> float:
    """As the pipeline does it; how long it took, seconds."""
    from pgsluice.pipelines.current_state.apply import apply
    from pgsluice.pipelines.current_state.collapse import collapse
    from pgsluice.pipelines.current_state.reading import changes_of

    begin = time.perf_counter()
    collapsed = collapse(changes_of(events, NAME.__eq__), table.kinds)
    apply(table, collapsed, app_id="bench", version=version, deleted_kept_h=DELETED_KEPT_H)
    return time.perf_counter() - begin


def by_executors(table: CurrentTable, events: Sequence[Event], version: int) -> float:
    """As the pipeline does it; how long it took, seconds."""
    from pgsluice.pipelines.current_state.apply import apply
    from pgsluice.pipelines.current_state.buckets import collapsed_by_buckets
    from pgsluice.spark.session import spark_session

    spark = spark_session("pgsluice bench", conf={"spark.ui.enabled": "false"})
    schema = (
        "ev_id long, at_us long, ev_type string, ev_data string, ev_extra1 string, ev_extra2 string"
    )
    rows = spark.createDataFrame(list(events), schema).repartition(2).persist()
    rows.count()
    begin = time.perf_counter()
    with collapsed_by_buckets(
        rows.rdd, NAME, table.kinds, bucket_count=table.bucket_count
    ) as changes:
        apply(table, changes, app_id="bench", version=version, deleted_kept_h=DELETED_KEPT_H)
        took_s = time.perf_counter() - begin
    rows.unpersist()
    if len(changes.buckets) != BUCKETS_CHANGED:
        raise RuntimeError(f"{len(changes.buckets)} buckets are changed, not {BUCKETS_CHANGED}")
    return took_s


def updates(rows: int, bucket_count: int, first_seq: int) -> list[Event]:
    """Events of random accounts of a table; of one in buckets, from `BUCKETS_CHANGED` of them."""
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
        events[aid] = (first_seq + len(events), 0, "u", data, NAME, None)
    return list(events.values())


def make(lake: Path, rows: int, by_buckets: bool) -> None:
    """A table of this many rows, as changes would have made it."""
    import pyarrow as pa
    from deltalake import write_deltalake

    from pgsluice.pipelines.current_state.buckets import bucket_of
    from pgsluice.pipelines.current_state.table import CurrentTable

    kinds = {"aid": pa.int64(), "bid": pa.int64(), "abalance": pa.int64(), "filler": pa.string()}
    count = max(BUCKETS_CHANGED, rows // BUCKET_ROWS) if by_buckets else 0
    table = CurrentTable.create(lake, NAME, ("aid",), kinds, bucket_count=count)
    if not by_buckets:
        write_deltalake(table.delta, accounts(range(rows), table.schema), mode="append")
        return
    if any(bucket(aid, count) != bucket_of((aid,), count) for aid in range(1000)):
        raise RuntimeError("buckets are found another way than here")
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
    """Rows of a current state."""
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
    """How many rows were changed by an event from this one on."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    return ds.dataset(table.files, schema=table.schema).count_rows(filter=pc.field("_seq") >= seq)


def bucket(aid: int, bucket_count: int) -> int:
    """What `bucket_of` says, in a twentieth of the time: tens of millions are asked."""
    return zlib.crc32(b"['%d']" % aid) % bucket_count
