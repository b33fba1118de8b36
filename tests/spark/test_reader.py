"""The stream's reader without Spark: its plans and the results of its queries."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

from pgsluice.errors import (
    ConfigurationError,
    ConnectionFailedError,
    LogNotFoundError,
    LogStateError,
)
from pgsluice.spark.schemas import struct
from pgsluice.spark.stream import LOG_SCHEMA, LogStreamReader
from spark.conftest import LOG
from spark.writing import insert
from support.servers import Database

Make = Callable[..., LogStreamReader]
ALL = ReadAllAvailable()


@pytest.fixture
def make(database_18: Database) -> Iterator[Make]:
    made: list[LogStreamReader] = []

    def reader(schema: StructType = LOG_SCHEMA, **options: str) -> LogStreamReader:
        options = {"dsn": database_18.url, "log": LOG, "autoTick": "false", **options}
        options = {name: given for name, given in options.items() if given}
        made.append(LogStreamReader(options, schema))
        return made[-1]

    yield reader
    for one in made:
        one.stop()


def tick(connection: psycopg.Connection) -> int:
    row = connection.execute("select sluice.log_tick(%s)", (LOG,)).fetchone()
    assert row is not None
    return row[0]


def read(reader: LogStreamReader, start: dict, end: dict) -> list[str]:
    executor = pickle.loads(pickle.dumps(reader))
    return sorted(
        data
        for partition in pickle.loads(pickle.dumps(reader.partitions(start, end)))
        for batch in executor.read(partition)
        for data in batch.column("ev_data").to_pylist()
    )


def test_a_micro_batch_has_the_same_rows_whenever_and_however_it_is_read(
    log: psycopg.Connection, database_18: Database, make: Make
):
    reader = make(numPartitions="1")
    start = reader.initialOffset()
    with database_18.connect(autocommit=False) as late:
        insert(late, "late")
        for number in range(20):
            insert(log, f"early {number:02}")
        tick(log)
        end = reader.latestOffset(start, ALL)
        first = read(reader, start, end)
        late.commit()
    insert(log, "later")
    tick(log)

    again = read(make(numPartitions="7", sliceEventsMin="1"), start, end)

    assert again == first == [f"early {number:02}" for number in range(20)]
    assert read(reader, end, reader.latestOffset(end, ALL)) == ["late", "later"]


def test_a_reader_by_ids_loses_a_late_commit_and_a_reader_by_ticks_does_not(
    log: psycopg.Connection, database_18: Database, make: Make
):
    def naive(last_id: int) -> list[tuple[int, str]]:
        return log.execute(
            "select ev_id, ev_data from pgq.event_1 where ev_id > %s order by ev_id", (last_id,)
        ).fetchall()

    reader = make()
    start = reader.initialOffset()
    seen_by_ids, seen_by_ticks = [], []
    with database_18.connect(autocommit=False) as late:
        insert(late, "late")
        insert(log, "early")
        tick(log)
        seen_by_ids += naive(0)
        middle = reader.latestOffset(start, ALL)
        seen_by_ticks += read(reader, start, middle)
        late.commit()
    insert(log, "later")
    tick(log)
    seen_by_ids += naive(seen_by_ids[-1][0])
    seen_by_ticks += read(reader, middle, reader.latestOffset(middle, ALL))

    assert [data for _, data in seen_by_ids] == ["early", "later"]  # "late" is lost
    assert seen_by_ticks == ["early", "late", "later"]


def test_a_limit_ends_at_the_last_tick_within_it(log: psycopg.Connection, make: Make):
    for _ in range(3):
        for number in range(10):
            insert(log, str(number))
        tick(log)
    reader = make()
    start = reader.initialOffset()

    ends = [reader.latestOffset(start, ReadMaxRows(rows))["tick"] for rows in (1, 10, 25, 100)]

    assert ends == [2, 2, 3, 4]


def test_newest_tick_is_reported_beside_the_end_of_a_limited_micro_batch(
    log: psycopg.Connection, make: Make
):
    reader = make()
    start = reader.initialOffset()
    for _ in range(3):
        insert(log, "new")
        tick(log)
    insert(log, "not ticked")

    end = reader.latestOffset(start, ReadMaxRows(1))

    assert (end["tick"], reader.reportLatestOffset()["tick"]) == (2, 4)
    assert "snapshot" in make(offsets="snapshots").reportLatestOffset()


def test_all_that_is_there_now_ends_before_what_comes_later(log: psycopg.Connection, make: Make):
    reader = make(autoTick="true")
    insert(log, "before")
    reader.prepareForTriggerAvailableNow()
    insert(log, "after")
    tick(log)

    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)

    assert read(reader, start, end) == ["before"]
    assert reader.latestOffset(end, ALL) == end


def test_stream_ticks_a_log_without_a_ticker(log: psycopg.Connection, make: Make):
    log.execute("update pgq.queue set queue_ticker_max_count = 1")
    reader = make(autoTick="true")
    start = reader.initialOffset()
    insert(log, "new")

    assert read(reader, start, reader.latestOffset(start, ALL)) == ["new"]


def test_a_reader_that_may_not_tick_reads_what_others_ticked(
    log: psycopg.Connection, database_18: Database, make: Make
):
    role = f"reader_of_{database_18.name}"
    log.execute(f"create role {role} login in role sluice_reader")
    try:
        dsn = database_18.url.replace("postgres@", f"{role}@")
        reader = make(dsn=dsn, autoTick="true", consumer="c")
        start = reader.initialOffset()
        insert(log, "new")
        assert reader.latestOffset(start, ALL) == start
        tick(log)

        end = reader.latestOffset(start, ALL)
        rows = read(reader, start, end)
        reader.commit(end)
        reader.prepareForTriggerAvailableNow()
        reader.stop()

        assert rows == ["new"]
        assert log.execute("select sub_last_tick from pgq.subscription").fetchone() == (
            end["tick"],
        )
    finally:
        log.execute(f"drop owned by {role}")
        log.execute(f"drop role {role}")


def test_latest_is_where_it_was_asked_first_even_after_a_crash(log: psycopg.Connection, make: Make):
    insert(log, "before")
    tick(log)
    first = make(startingOffsets="latest", consumer="c").initialOffset()
    insert(log, "after")
    tick(log)

    again = make(startingOffsets="latest", consumer="c")

    assert again.initialOffset() == first
    assert read(again, first, again.latestOffset(first, ALL)) == ["after"]


def test_latest_needs_a_consumer_to_remember_it(log: psycopg.Connection, make: Make):
    with pytest.raises(ConfigurationError, match="needs the option consumer"):
        make(startingOffsets="latest")


def test_ranges_that_are_empty_or_reversed_have_no_partitions(log: psycopg.Connection, make: Make):
    reader = make()
    first = reader.initialOffset()
    insert(log, "new")
    tick(log)
    second = reader.latestOffset(first, ALL)

    assert reader.partitions(second, second) == []
    assert reader.partitions(second, first) == []


def test_it_goes_on_after_its_connection_was_ended(log: psycopg.Connection, make: Make):
    reader = make()
    start = reader.initialOffset()
    insert(log, "new")
    tick(log)
    assert read(reader, start, reader.latestOffset(start, ALL)) == ["new"]

    log.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid()"
    )

    assert read(reader, start, reader.latestOffset(start, ALL)) == ["new"]


def test_a_first_connection_that_fails_is_reported_at_once(make: Make):
    with pytest.raises(ConnectionFailedError, match="check that the server runs"):
        make(dsn="postgresql://nobody@127.0.0.1:1/none").initialOffset()


def test_an_unknown_log_is_named(database_18: Database, make: Make):
    with pytest.raises(LogNotFoundError, match="event log 'log' does not exist"):
        make().initialOffset()


def test_ticks_that_are_gone_stop_the_stream(log: psycopg.Connection, make: Make):
    start = make().initialOffset()
    insert(log, "lost")
    tick(log)
    insert(log, "kept")
    tick(log)
    log.execute("delete from pgq.tick where tick_id = 1")

    with pytest.raises(LogStateError, match="no longer keeps tick 1.*failOnDataLoss"):
        make().latestOffset(start, ALL)

    reader = make(failOnDataLoss="false")
    end = reader.latestOffset(start, ALL)
    assert read(reader, start, end) == ["kept"]


def test_a_checkpoint_of_another_log_is_refused(log: psycopg.Connection, make: Make):
    reader = make()
    start = reader.initialOffset()
    log.execute("select pgq.drop_queue(%s)", (LOG,))
    log.execute("select pgq.create_queue(%s)", (LOG,))

    with pytest.raises(LogStateError, match="dropped and recreated"):
        reader.latestOffset(start, ALL)


def test_a_schema_of_the_callers_is_read_and_cast(log: psycopg.Connection, make: Make):
    insert(log, "7")
    tick(log)
    reader = make(struct(ev_data="integer", ev_txid="string", ev_time="timestamp"))
    start = reader.initialOffset()

    (partition,) = reader.partitions(start, reader.latestOffset(start, ALL))
    (batch,) = reader.read(partition)

    assert batch.schema.names == ["ev_data", "ev_txid", "ev_time"]
    assert batch.column("ev_data").to_pylist() == [7]


def test_commits_move_the_consumer_forward_only(log: psycopg.Connection, make: Make):
    reader = make(consumer="c")
    start = reader.initialOffset()
    insert(log, "new")
    tick(log)
    end = reader.latestOffset(start, ALL)

    reader.commit(end)
    reader.commit(start)

    assert log.execute("select sub_last_tick from pgq.subscription").fetchone() == (end["tick"],)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maxRowsPerTrigger": "0"}, "maxRowsPerTrigger is '0'"),
        ({"numPartitions": "many"}, "numPartitions is 'many'"),
        ({"autoTick": "yes"}, "autoTick is 'yes'"),
        ({"startingOffsets": "now"}, "startingOffsets is 'now'"),
        ({"dsnEnv": "X"}, "the options dsn and dsnEnv are mutually exclusive"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(make: Make, options: dict[str, str], message: str):
    with pytest.raises(ConfigurationError, match=message):
        make(**options)
