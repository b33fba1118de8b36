"""The stream's reader without Spark: start offsets, snapshots, shards and data loss."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from pgsluice.errors import (
    ConfigurationError,
    ConnectionFailedError,
    ConsumerNotFoundError,
    LogStateError,
)
from pgsluice.spark.low_latency import LowLatencyReader
from pgsluice.spark.stream import LogStreamReader, log_schema
from spark.conftest import LOG
from spark.test_reader import ALL, Make, insert, make, read, tick
from spark.writing import Writers
from support import value, wait_until
from support.servers import TEMPLATE, Database, new_database

__all__ = ["make"]
KINDS = pytest.mark.parametrize("kind", ["ticks", "snapshots"])


@pytest.fixture
def other(database_18: Database) -> Iterator[Database]:
    """Another database, with a log of the same name and number."""
    with new_database(database_18.server, TEMPLATE) as database:
        with database.connect() as connection:
            connection.execute("select pgq.create_queue(%s)", (LOG,))
        yield database


def end_sessions(connection: psycopg.Connection) -> None:
    """Terminate all sessions but this one."""
    connection.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid()"
    )


# --- by snapshots ---------------------------------------------------------------------------------


@pytest.mark.slow
@KINDS
def test_each_committed_event_is_in_one_micro_batch_however_often_it_is_planned_and_read(
    log: psycopg.Connection, database_18: Database, make: Make, kind: str, seed: int
):
    log.execute(
        "update pgq.queue set queue_ticker_max_count = 20, queue_ticker_max_lag = '50 milliseconds'"
    )
    dice = random.Random(seed)
    writers = Writers(database_18, count=4, seed=seed)

    def reader() -> LogStreamReader:
        return make(
            offsets=kind, autoTick="true", numPartitions=str(dice.randint(1, 4)), sliceEventsMin="3"
        )

    one, found, naive, last_id = reader(), [], [], 0
    place = one.initialOffset()
    with writers.running():
        while len(found) < 400:
            end = one.latestOffset(place, ReadMaxRows(dice.choice((3, 40))))
            rows = read(one, place, end)
            if dice.random() < 0.3:  # the driver dies, and another one plans the same offsets
                one.stop()  # not too often, as each reader opens a connection
                one = reader()
                assert read(one, place, end) == rows
            place, found = end, found + rows
            for ev_id, data in log.execute(
                "select ev_id, ev_data from pgq.event_1 where ev_id > %s", (last_id,)
            ):
                naive.append(data)
                last_id = max(last_id, ev_id)
    one.prepareForTriggerAvailableNow()
    while (end := one.latestOffset(place, ReadMaxRows(100))) != place:
        found += read(one, place, end)
        place = end

    assert sorted(found) == sorted(writers.committed)
    assert set(naive) < set(found), "a reader by ids lost nothing, so these writers prove nothing"


def test_a_backlog_that_one_tick_covers_is_read_in_steps(log: psycopg.Connection, make: Make):
    for number in range(10):
        insert(log, f"{number}")
    reader = make(offsets="snapshots", consumer="c")
    place, steps = reader.initialOffset(), []
    while (end := reader.latestOffset(place, ReadMaxRows(4))) != place:
        steps.append(read(reader, place, end))
        reader.commit(end)
        place = end

    assert [len(step) for step in steps] == [4, 4, 2]
    assert value(log, "select sub_last_tick from pgq.subscription") == 1
    tick(log)
    insert(log, "10")
    reader.commit(reader.latestOffset(place, ALL))
    assert value(log, "select sub_last_tick from pgq.subscription") == 2


def test_ticks_caused_by_other_databases_start_no_micro_batch(log: psycopg.Connection, make: Make):
    reader = make(offsets="snapshots")
    place = reader.initialOffset()
    log.execute("create table unrelated ()")

    assert reader.latestOffset(place, ALL) == place


# --- start offsets --------------------------------------------------------------------------------


def test_reading_starts_at_a_time(log: psycopg.Connection, make: Make):
    reader = make()
    insert(log, "early")
    tick(log)
    insert(log, "late")
    tick(log)
    log.execute(
        "update pgq.tick set tick_time = '2026-01-01 00:00Z'::timestamptz + make_interval(mins => tick_id::int)"
    )

    def first(time: datetime, **options: str) -> dict:
        return make(startingTimestamp=time.isoformat(), **options).initialOffset()

    second = datetime(2026, 1, 1, 0, 2, 30, tzinfo=UTC)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert read(reader, first(second), end) == ["late"]
    assert first(second - timedelta(hours=1))["tick"] == 1
    future = datetime.now(UTC) + timedelta(hours=1)
    with pytest.raises(ConfigurationError, match="is in the future"):
        first(future)
    assert first(future, startingOffsetsByTimestampStrategy="latest", consumer="c")["tick"] == 3


def test_committed_is_where_the_consumer_stands(log: psycopg.Connection, make: Make):
    with pytest.raises(ConsumerNotFoundError, match="Not subscriber"):
        make(startingOffsets="committed", consumer="c").initialOffset()
    insert(log, "read")
    reader = make(consumer="c")
    tick(log)
    reader.commit(reader.latestOffset(reader.initialOffset(), ALL))
    insert(log, "unread")
    tick(log)

    again = make(startingOffsets="committed", consumer="c")

    start = again.initialOffset()
    assert read(again, start, again.latestOffset(start, ALL)) == ["unread"]


def test_reading_starts_at_the_snapshot_of_a_checkpoint(log: psycopg.Connection, make: Make):
    insert(log, "read")
    reader = make(offsets="snapshots")
    place = reader.latestOffset(reader.initialOffset(), ALL)
    insert(log, "unread")

    again = make(offsets="snapshots", startingOffsets=json.dumps(place), consumer="c")

    assert again.initialOffset() == place
    assert read(again, place, again.latestOffset(place, ALL)) == ["unread"]
    elsewhere = json.dumps({**place, "log": "1/2/3"})
    with pytest.raises(LogStateError, match="startingOffsets is of another log"):
        make(offsets="snapshots", startingOffsets=elsewhere).initialOffset()


def test_it_waits_for_enough_events_but_not_for_ever(log: psycopg.Connection, make: Make):
    reader = make(offsets="snapshots", minOffsetsPerTrigger="3", maxTriggerDelay="200ms")
    insert(log, "1")
    first = reader.latestOffset(
        reader.initialOffset(), ALL
    )  # as with Kafka, the stream starts immediately
    insert(log, "2")

    assert reader.latestOffset(first, ALL) == first
    wait_until(lambda: reader.latestOffset(first, ALL) != first, "the delay to elapse", 10)
    hurried = make(offsets="snapshots", minOffsetsPerTrigger="3")
    hurried.released_at = reader.released_at
    assert hurried.latestOffset(first, ALL) == first
    insert(log, "3")
    insert(log, "4")
    assert read(hurried, first, hurried.latestOffset(first, ALL)) == ["2", "3", "4"]
    hurried.prepareForTriggerAvailableNow()
    insert(log, "5")
    place = hurried.latestOffset(first, ALL)
    assert read(hurried, first, place) == ["2", "3", "4"]


# --- data loss ------------------------------------------------------------------------------------


def forget(connection: psycopg.Connection) -> None:
    connection.execute("delete from pgq.tick where tick_id < 3")
    connection.execute("delete from pgq.event_1 where ev_data = 'lost'")


def make_again(connection: psycopg.Connection) -> None:
    connection.execute("select pgq.drop_queue(%s, true)", (LOG,))
    connection.execute("select pgq.create_queue(%s)", (LOG,))
    insert(connection, "kept")
    tick(connection)


def restore(connection: psycopg.Connection) -> None:
    """Simulate a restored backup from before the second tick, after which tick ids are reused."""
    connection.execute("update pgq.tick set tick_snapshot = '90:90:' where tick_id = 2")
    forget(connection)
    connection.execute("update pgq.tick set tick_id = 2 where tick_id = 3")


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("consumer", ["", "c"])
@pytest.mark.parametrize("loss", [forget, make_again, restore])
def test_a_stream_stops_at_a_loss_or_goes_on_from_what_is_kept(
    log: psycopg.Connection,
    make: Make,
    kind: str,
    loss,
    consumer: str,
    capfd: pytest.CaptureFixture,
):
    reader = make(offsets=kind)
    insert(log, "read")
    tick(log)
    place = reader.latestOffset(reader.initialOffset(), ALL)
    insert(log, "lost")
    tick(log)
    insert(log, "kept")
    tick(log)
    loss(log)

    with pytest.raises(LogStateError, match="failOnDataLoss"):
        make(offsets=kind, consumer=consumer).latestOffset(place, ALL)

    lenient = make(offsets=kind, consumer=consumer, failOnDataLoss="false")
    end = lenient.latestOffset(place, ALL)
    assert read(lenient, place, end) == ["kept"]
    assert "continuing from tick" in capfd.readouterr().err
    lenient.commit(end)
    assert lenient.latestOffset(end, ALL) == end


def test_events_read_before_a_data_loss_are_not_read_again(
    log: psycopg.Connection, database_18: Database, make: Make
):
    reader = make(offsets="snapshots", failOnDataLoss="false")
    start = reader.initialOffset()
    with database_18.connect(autocommit=False) as late:
        insert(late, "late")
        insert(log, "lost")
        tick(log)  # does not see the first one
        late.commit()
    # The lower transaction id is first: a step that ends between the two does not see all that the
    # tick sees.
    place = reader.latestOffset(start, ReadMaxRows(1))
    assert read(reader, start, place) == ["late"]
    log.execute("delete from pgq.tick where tick_id = 1")
    insert(log, "kept")

    end = reader.latestOffset(place, ALL)

    assert read(reader, place, end) == ["kept"]
    assert reader.latestOffset(end, ALL) == end


@KINDS
def test_a_cluster_that_was_replaced_is_another_log(
    log: psycopg.Connection, other: Database, make: Make, kind: str
):
    insert(log, "read")
    tick(log)
    reader = make(offsets=kind)
    place = reader.latestOffset(reader.initialOffset(), ALL)
    with other.connect() as replaced:
        insert(replaced, "kept")
        tick(replaced)

    with pytest.raises(LogStateError, match="its server replaced"):
        make(offsets=kind, dsn=other.url).latestOffset(place, ALL)
    lenient = make(offsets=kind, dsn=other.url, failOnDataLoss="false", consumer="c")
    end = lenient.latestOffset(place, ALL)
    assert read(lenient, place, end) == ["kept"]
    assert lenient.partitions(reader.initialOffset(), place) == []  # planned before the loss


def test_a_position_that_was_given_up_is_taken_again_if_losses_are_allowed(
    log: psycopg.Connection, make: Make
):
    reader = make(consumer="c", failOnDataLoss="false")
    place = reader.initialOffset()
    insert(log, "lost")
    tick(log)
    insert(log, "kept")
    tick(log)
    log.execute("update pgq.position_0 set pos_lost = 'too far behind'")
    log.execute("delete from pgq.tick where tick_id = 1")

    end = reader.latestOffset(place, ALL)

    assert read(reader, place, end) == ["kept"]
    reader.commit(end)
    assert value(log, "select sub_last_tick from pgq.subscription") == end["tick"]


def test_a_segment_that_is_emptied_while_it_is_read_is_noticed(log: psycopg.Connection, make: Make):
    insert(log, "lost")
    tick(log)
    partitions = {}
    for consumer in ("", "c"):
        reader = make(consumer=consumer)
        start = reader.initialOffset()
        partitions[consumer] = reader, reader.partitions(start, reader.latestOffset(start, ALL))
    log.execute("select pgq.unregister_consumer(%s, 'c')", (LOG,))
    log.execute("truncate pgq.event_1")
    log.execute("delete from pgq.tick where tick_id = 1")

    for reader, (partition,) in partitions.values():
        with pytest.raises(LogStateError, match="was truncated while it was read"):
            list(reader.read(partition))


# --- unregistered consumers -----------------------------------------------------------------------


def position(connection: psycopg.Connection, consumer: str) -> int | None:
    row = connection.execute(
        "select sub_last_tick from pgq.subscription join pgq.consumer on co_id = sub_consumer "
        "where co_name = %s",
        (consumer,),
    ).fetchone()
    return None if row is None else row[0]


def unregister(connection: psycopg.Connection, consumer: str) -> None:
    connection.execute("select pgq.unregister_consumer(%s, %s)", (LOG, consumer))


@KINDS
@pytest.mark.parametrize("unregistered", ["before", "later", "never"])
def test_consumer_of_another_name_is_registered_where_the_checkpoint_is(
    log: psycopg.Connection,
    make: Make,
    kind: str,
    unregistered: str,
    capfd: pytest.CaptureFixture,
):
    reader = make(offsets=kind, consumer="old")
    start = reader.initialOffset()
    insert(log, "read")
    tick(log)
    place = reader.latestOffset(start, ALL)
    reader.commit(place)
    held = position(log, "old")
    insert(log, "new")
    tick(log)
    if unregistered == "before":
        unregister(log, "old")

    renamed = make(offsets=kind, consumer="new")
    end = renamed.latestOffset(place, ALL)

    assert position(log, "new") == held
    if unregistered == "later":
        unregister(log, "old")
    assert read(renamed, place, end) == ["new"]
    assert "consumer 'new' was not registered on event log 'log'" in capfd.readouterr().err
    renamed.commit(end)
    assert make(offsets=kind, consumer="new").latestOffset(end, ALL) == end
    assert capfd.readouterr().err == ""


@KINDS
def test_consumer_that_is_unregistered_while_the_stream_runs_is_registered_again(
    log: psycopg.Connection, make: Make, kind: str
):
    reader = make(offsets=kind, consumer="c")
    start = reader.initialOffset()
    first = position(log, "c")
    unregister(log, "c")
    insert(log, "new")
    tick(log)

    end = reader.latestOffset(start, ALL)
    assert position(log, "c") == first
    unregister(log, "c")
    assert read(reader, start, end) == ["new"]
    assert position(log, "c") == first
    unregister(log, "c")
    reader.commit(end)  # the last commit of a stream that stops, after which nothing is planned
    assert position(log, "c") == first + 1


@KINDS
def test_consumer_that_was_moved_past_the_checkpoint_is_moved_back(
    log: psycopg.Connection, make: Make, kind: str
):
    reader = make(offsets=kind, consumer="c")
    start = reader.initialOffset()
    insert(log, "new")
    tick(log)
    reader.commit(reader.latestOffset(start, ALL))
    assert position(log, "c") == 2

    again = make(offsets=kind, consumer="c")
    end = again.latestOffset(start, ALL)  # from an older copy of the checkpoint

    assert position(log, "c") == 1
    assert read(again, start, end) == ["new"]


@KINDS
def test_stream_stops_when_its_consumer_is_gone_and_events_with_it(
    log: psycopg.Connection, make: Make, kind: str
):
    reader = make(offsets=kind, consumer="c")
    start = reader.initialOffset()
    insert(log, "read")
    tick(log)
    end = reader.latestOffset(start, ALL)
    unregister(log, "c")
    insert(log, "lost")
    tick(log)
    insert(log, "kept")
    tick(log)
    log.execute("delete from pgq.tick where tick_id < 4")

    for act in (
        lambda: reader.commit(end),
        lambda: make(offsets=kind, consumer="d").latestOffset(end, ALL),
    ):
        with pytest.raises(LogStateError, match="no longer keeps"):
            act()
    assert position(log, "c") is position(log, "d") is None  # no unused consumer retains the log


def test_an_executor_that_lost_its_connection_reads_the_micro_batch_again(
    log: psycopg.Connection, make: Make
):
    # More than a connection buffers.
    log.execute(
        "insert into pgq.event_1_0 (ev_type, ev_data) select 't', repeat('x', 8000) from generate_series(1, 4000)"
    )
    tick(log)
    reader = make(numPartitions="1")
    start = reader.initialOffset()
    (partition,) = reader.partitions(start, reader.latestOffset(start, ALL))
    executor = pickle.loads(pickle.dumps(reader))
    batches = executor.read(partition)
    next(batches)
    end_sessions(log)

    # Spark has received half of the rows: the task fails, and Spark retries it.
    with pytest.raises(ConnectionFailedError):
        list(batches)
    assert sum(map(len, executor.read(partition))) == 4000


# --- low latency ----------------------------------------------------------------------------------


def test_the_low_latency_reader_reads_on_the_driver_and_again_on_an_executor(
    log: psycopg.Connection, database_18: Database
):
    options = {"dsn": database_18.url, "log": LOG, "lowLatency": "true", "consumer": "c"}
    reader = LowLatencyReader(options, log_schema(options))
    start = reader.initialOffset()
    assert reader.read(start)[1] == start
    insert(log, "new")  # without a tick

    batches, end = reader.read(start)

    def texts(batches) -> list[str]:
        return [text for batch in batches for text in batch.column("ev_data").to_pylist()]

    assert texts(batches) == ["new"]
    executor = pickle.loads(pickle.dumps(reader))
    assert texts(executor.readBetweenOffsets(start, end)) == ["new"]
    assert executor.reader.shards[""]._connection._connection is None
    reader.commit(end)
    reader.reader.stop()


# --- shards ---------------------------------------------------------------------------------------


def shards(**urls: str) -> dict[str, str]:
    return {
        "dsn": "",
        "shards": json.dumps({name: {"dsn": url} for name, url in urls.items()}),
    }


def rows(reader: LogStreamReader, start: dict, end: dict) -> list[tuple[str, str]]:
    executor = pickle.loads(pickle.dumps(reader))
    return sorted(
        (row["shard"], row["ev_data"])
        for partition in reader.partitions(start, end)
        for batch in executor.read(partition)
        for row in batch.to_pylist()
    )


@KINDS
def test_shards_are_one_stream_with_an_offset_each(
    log: psycopg.Connection, database_18: Database, other: Database, make: Make, kind: str
):
    both = shards(us=other.url, eu=database_18.url)
    reader = make(log_schema(both), offsets=kind, consumer="c", numPartitions="4", **both)
    with other.connect() as second:
        start = reader.initialOffset()
        for number in range(3):
            insert(log, f"{number}")
        insert(second, "0")
        tick(log)
        tick(second)
        end = reader.latestOffset(start, ReadMaxRows(2) if kind == "snapshots" else ALL)
        first = rows(reader, start, end)
        reader.commit(end)
        stands = [value(one, "select sub_last_tick from pgq.subscription") for one in (log, second)]

    assert list(end) == ["eu", "us"]
    if kind == "snapshots":  # the limit is divided
        assert first == [("eu", "0"), ("us", "0")]
        assert rows(reader, end, reader.latestOffset(end, ALL)) == [("eu", "1"), ("eu", "2")]
    else:
        assert first == [("eu", "0"), ("eu", "1"), ("eu", "2"), ("us", "0")]
        assert stands == [2, 2]


@KINDS
def test_rows_that_a_shard_lacks_of_a_limit_are_read_from_the_others(
    log: psycopg.Connection, database_18: Database, other: Database, make: Make, kind: str
):
    both = shards(us=other.url, eu=database_18.url)
    reader = make(log_schema(both), offsets=kind, numPartitions="4", sliceEventsMin="1", **both)
    start = reader.initialOffset()
    with other.connect() as second:
        insert(second, "0")
        tick(second)
    for number in range(10):
        insert(log, f"{number}")
        tick(log)

    middle = reader.latestOffset(start, ReadMaxRows(6))
    end = reader.latestOffset(middle, ReadMaxRows(6))

    assert rows(reader, start, middle) == [*(("eu", f"{n}") for n in range(5)), ("us", "0")]
    assert rows(reader, middle, end) == [("eu", f"{n}") for n in range(5, 10)]
    assert len(reader.partitions(middle, end)) > 2  # a half of numPartitions


def test_a_shard_that_is_added_begins_where_a_new_stream_would_and_one_that_is_missed_stops_it(
    log: psycopg.Connection, database_18: Database, other: Database, make: Make
):
    one, both = shards(eu=database_18.url), shards(eu=database_18.url, us=other.url)
    with other.connect() as second:
        insert(second, "there before")
        tick(second)
    before = make(log_schema(one), **one)
    start = before.initialOffset()
    wider = make(log_schema(both), **both)

    middle = wider.latestOffset(start, ALL)

    assert wider.partitions(start, middle) == []
    end = wider.latestOffset(middle, ALL)
    assert rows(wider, middle, end) == [("us", "there before")]
    with pytest.raises(
        LogStateError, match="offsets of us, which the shards of the stream do not name"
    ):
        before.latestOffset(end, ALL)
    lenient = make(log_schema(one), failOnDataLoss="false", **one)
    assert list(lenient.latestOffset(end, ALL)) == ["eu"]
