"""Readers of batch queries, without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import StructType

from pgsluice.client import WorkQueue
from pgsluice.errors import ConfigurationError, LogStateError, QueueNotFoundError
from pgsluice.spark import arrow_adbc, batch
from pgsluice.spark.batch import DEAD_LETTER_SCHEMA, QUEUE_SCHEMA, schema_of
from pgsluice.spark.schemas import struct
from pgsluice.spark.shared_snapshot import shared_snapshot
from spark.conftest import LOG
from spark.writing import insert
from support.servers import Database

FILTERED = {"reader": "rows", "pushdown": "true"}


@pytest.fixture(autouse=True)
def no_idle_connections() -> Iterator[None]:
    yield
    arrow_adbc.close_idle()


def table_of(
    options: dict[str, str], schema: StructType | None = None, *filters: Filter
) -> pa.Table:
    """Return the rows as Spark reads them: planned in one process, each task read in another."""
    schema = schema or schema_of(options)
    reader = batch.reader(options, schema)
    sent = pickle.dumps(reader)
    if filters:
        assert list(reader.pushFilters(list(filters))) == []
    partitions = pickle.loads(pickle.dumps(reader.partitions()))
    batches = [found for part in partitions for found in pickle.loads(sent).read(part)]
    return pa.Table.from_batches(batches) if batches else pa.table({})


def column(options: dict[str, str], name: str, *filters: Filter) -> list[Any]:
    found = table_of(options, None, *filters)
    return found.column(name).to_pylist() if found.num_rows else []


def test_dead_letters_are_read_with_what_is_known_of_their_failure(
    db: psycopg.Connection, database_18: Database
):
    WorkQueue(db).create("q")
    db.execute(
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, message, headers, reason, "
        "error, error_type, trace, worker, attempts, first_failed_at) "
        "select 'q', n, 3, now(), '{\"n\": 1}', '{\"h\": 1}', 'rejected', 'no', 'ValueError', 'line 1', 'w-1', 4, now() "
        "from generate_series(1, 3) as n"
    )

    rows = table_of({"dsn": database_18.url, "queue": "Q", "table": "dead_letters"})

    assert rows.schema.names == DEAD_LETTER_SCHEMA.names
    assert rows.column("msg_id").to_pylist() == [1, 2, 3]
    names = ", ".join(
        f"{name}::text" if name in ("message", "headers") else name for name in rows.schema.names
    )
    assert [tuple(row.values()) for row in rows.to_pylist()] == db.execute(
        f"select {names} from sluice.dead_letter order by 1".encode()
    ).fetchall()


def test_tables_of_one_snapshot_hold_each_message_once(
    db: psycopg.Connection, database_18: Database
):
    queue = WorkQueue(db)
    queue.create("q")
    queue.send_batch("q", [{"n": n} for n in range(1, 21)])
    db.execute(
        f"alter database {database_18.name} set idle_in_transaction_session_timeout to '200ms'"
    )

    with shared_snapshot(database_18.url) as snapshot:
        options = {**snapshot.options, "queue": "q"}
        before = column(options, "msg_id")
        queue.archive_batch("q", list(range(1, 11)))
        queue.send("q", {})
        after, archived = (
            column(options, "msg_id"),
            column({**options, "table": "archive"}, "msg_id"),
        )

    assert sorted(before) == sorted(after) == list(range(1, 21))
    assert archived == []
    with pytest.raises(ConfigurationError, match="inside `with shared_snapshot"):
        column(options, "msg_id")


def test_a_range_of_a_log_starts_after_one_tick_and_ends_with_another(
    log: psycopg.Connection, database_18: Database
):
    ticks = []
    for number in range(4):
        insert(log, f"event {number}")
        ticks.append(log.execute("select sluice.log_tick(%s)", (LOG,)).fetchone()[0])
    insert(log, "later")
    options = {"dsn": database_18.url, "log": LOG}

    def read(**more: str) -> list[str]:
        return sorted(column({**options, **more}, "ev_data"))

    some = read(startingOffsets=f'{{"tick": {ticks[0]}}}', endingOffsets=f'{{"tick": {ticks[2]}}}')
    assert some == ["event 1", "event 2"]
    assert read(endingOffsets=f'{{"tick": {ticks[0]}}}') == ["event 0"]
    assert read(autoTick="false") == [f"event {n}" for n in range(4)]
    assert read() == [*(f"event {n}" for n in range(4)), "later"]
    newest = log.execute("select max(tick_id) from pgq.tick").fetchone()[0]
    assert read(startingOffsets=f'{{"tick": {newest}}}') == []


def test_ranges_that_meet_at_a_moment_share_no_event_and_miss_none(
    log: psycopg.Connection, database_18: Database
):
    moments = []
    for number in range(3):
        insert(log, f"event {number}")
        log.execute("select sluice.log_tick(%s)", (LOG,))
        moments.append(log.execute("select clock_timestamp()").fetchone()[0])
    insert(log, "event 3")
    options = {"dsn": database_18.url, "log": LOG}

    def read(**more: str) -> list[str]:
        return sorted(column({**options, **more}, "ev_data"))

    first, second = (moment.isoformat() for moment in moments[:2])
    assert read(endingTimestamp=first) == ["event 0"]
    assert read(startingTimestamp=first, endingTimestamp=second) == ["event 1"]
    assert read(startingTimestamp=second) == ["event 2", "event 3"]
    assert read(startingTimestamp="0", endingTimestamp="0") == []


def test_a_role_that_may_only_read_reads_up_to_the_last_tick(
    log: psycopg.Connection, database_18: Database
):
    insert(log, "ticked")
    log.execute("select sluice.log_tick(%s)", (LOG,))
    insert(log, "not yet")
    WorkQueue(log).create("q")
    WorkQueue(log).send("q", {})
    role = f"reader_of_{database_18.name}"
    log.execute(f"create role {role} login in role sluice_reader".encode())
    try:
        options = {"dsn": database_18.url.replace("postgres@", f"{role}@"), "reader": "copy"}

        events = column({**options, "log": LOG}, "ev_data")
        messages = column({**options, "queue": "q", **FILTERED}, "msg_id", EqualTo(("msg_id",), 1))
        nothing = column({**options, "queue": "q", "table": "dead_letters"}, "msg_id")
    finally:
        log.execute(f"drop role {role}".encode())

    assert (events, messages, nothing) == (["ticked"], [1], [])


def test_events_rotated_away_during_a_read_are_an_error(
    log: psycopg.Connection, database_18: Database
):
    options = {"dsn": database_18.url, "log": LOG}
    first = log.execute("select sluice.log_tick(%s)", (LOG,)).fetchone()[0]
    insert(log, "old")
    reader = batch.reader(options, schema_of(options))
    (planned,) = reader.partitions()
    assert [found.num_rows for found in reader.read(planned)] == [1]

    forget(log)
    insert(log, "new")

    with pytest.raises(LogStateError, match="keeps no tick"):
        list(reader.read(planned))
    gone = {**options, "startingOffsets": f'{{"tick": {first}}}'}
    with pytest.raises(LogStateError, match="set failOnDataLoss to false"):
        column(gone, "ev_data")
    assert column({**gone, "failOnDataLoss": "false"}, "ev_data") == ["new"]
    assert column(options, "ev_data") == ["new"]  # earliest starts at the oldest retained event


def forget(log: psycopg.Connection) -> None:
    """Rotate the log until it retains no events."""
    log.execute("select pgq.set_queue_config(%s, 'rotation_period', '0')", (LOG,))
    for _ in range(6):
        log.execute("select sluice.log_tick(%s)", (LOG,))
        log.execute("select sluice.rotate(%s)", (LOG,))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (EqualTo(("msg_id",), 3), [3]),
        (Not(EqualTo(("msg_id",), 3)), [1, 2, 4, 5, 6]),
        (GreaterThan(("msg_id",), 4), [5, 6]),
        (Not(GreaterThan(("msg_id",), 4)), [1, 2, 3, 4]),
        (GreaterThanOrEqual(("read_ct",), 1), [1, 2]),
        (LessThan(("msg_id",), 2), [1]),
        (LessThanOrEqual(("msg_id",), 2), [1, 2]),
        (In(("msg_id",), (2, 9)), [2]),
        (Not(In(("msg_id",), (2, 9))), [1, 3, 4, 5, 6]),
        (IsNull(("headers",)), [1, 2, 3, 4, 5]),
        (IsNotNull(("headers",)), [6]),
        (Not(IsNull(("last_read_at",))), [1, 2]),
        (StringStartsWith(("message",), '{"n": 4'), [4]),
        (StringContains(("message",), "'\\\\"), [6]),
        (EqualTo(("message",), '{"n": 5}'), [5]),
    ],
)
def test_filters_are_applied_by_the_server_as_spark_would(
    db: psycopg.Connection, database_18: Database, found: Filter, expected: list[int]
):
    queue = WorkQueue(db)
    queue.create("q")
    queue.send_batch("q", [{"n": n} for n in range(1, 6)])
    queue.send("q", {"n": "'\\"}, headers={"h": 1})
    queue.read("q", vt=0, qty=2)

    options = {"dsn": database_18.url, "queue": "q", **FILTERED}
    assert column(options, "msg_id", found) == expected


@pytest.mark.parametrize(
    "found",
    [
        EqualTo(("msg_id",), None),
        EqualTo(("nothing",), 3),
        EqualTo(("message", "n"), 3),
        EqualTo(("headers",), 1.5),
        EqualTo(("headers",), True),
        EqualTo(("message",), "NUL \x00"),
        In(("msg_id",), (1, None)),
        LessThan(("message",), "x"),  # compared by collation in PostgreSQL, by bytes in Spark
        Not(StringContains(("message",), "x")),
        StringEndsWith(("message",), "x"),
        EqualTo(("read_ct",), 3),  # read as text below, where '3' is not 3
    ],
)
def test_other_filters_stay_sparks(database_18: Database, found: Filter):
    schema = struct(msg_id="long", read_ct="string", message="string", headers="string")
    reader = batch.reader({"dsn": database_18.url, "queue": "q", **FILTERED}, schema)

    assert list(reader.pushFilters([found])) == [found]


def test_only_with_pushdown_a_reader_takes_filters(database_18: Database):
    options = {"dsn": database_18.url, "queue": "q"}

    assert isinstance(batch.reader(options, QUEUE_SCHEMA), batch.QueueReader)
    wrapped = batch.reader({**options, "pushdown": "true"}, QUEUE_SCHEMA)
    assert isinstance(wrapped, batch.FilteringReader)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "set either the option queue or the option log"),
        ({"queue": "q", "log": "l"}, "set either the option queue or the option log"),
        ({"queue": "q", "table": "both"}, "table is 'both'; use queue, archive or dead_letters"),
        ({"queue": "q", "snapshot": "'; drop"}, "is not a snapshot name"),
        ({"queue": "q", "pushdown": "1"}, "pushdown is '1'; use true or false"),
        ({"log": "l", "snapshot": "1"}, "leave them out with log"),
        ({"log": "l", "startingOffsets": "latest"}, 'use earliest or {"tick": 12}'),
        ({"log": "l", "startingOffsets": "1", "startingTimestamp": "1"}, "set only one"),
        ({"log": "l", "endingTimestamp": "noon"}, "endingTimestamp is 'noon'; use milliseconds"),
        ({"log": "l", "endingOffsets": '{"tick": true}'}, 'use latest or {"tick": 12}'),
    ],
)
def test_bad_options_are_named(options: dict[str, str], message: str):
    with pytest.raises(Exception, match=message):
        batch.reader(options, schema_of(options))


def test_a_schema_of_the_callers_is_all_that_is_read(db: psycopg.Connection, database_18: Database):
    WorkQueue(db).create("q")
    WorkQueue(db).send("q", {"n": 1})
    options = {"dsn": database_18.url, "queue": "q"}

    rows = table_of(options, struct(message="string", msg_id="integer"))

    assert rows.to_pylist() == [{"message": '{"n": 1}', "msg_id": 1}]
    assert rows.schema.field("msg_id").type == pa.int32()


def test_empty_range_is_read_as_one_partition(db: psycopg.Connection, database_18: Database):
    WorkQueue(db).create("q")
    reader = batch.reader({"dsn": database_18.url, "queue": "q"}, QUEUE_SCHEMA)

    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_an_unknown_queue_is_named(database_18: Database):
    reader = batch.reader({"dsn": database_18.url, "queue": "none"}, QUEUE_SCHEMA)

    with pytest.raises(QueueNotFoundError, match="queue 'none' does not exist"):
        reader.partitions()


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(
        ConfigurationError, match="column 'text' does not exist; choose from msg_id, read_ct"
    ):
        batch.reader({"queue": "q"}, struct(msg_id="long", text="string"))
