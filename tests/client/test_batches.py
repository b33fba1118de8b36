"""Methods of the event log for batches, sync and async, on a pool and on a connection."""

from __future__ import annotations

import gc
import inspect
import tracemalloc
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import pytest

from pgsluice import BatchInfo, OpenBatch
from pgsluice.errors import (
    ArgumentError,
    BatchNotFoundError,
    ConsumerNotFoundError,
    LogStateError,
    RetryableError,
)
from support import value

SOON = timedelta(seconds=30)


@pytest.fixture
def batch_of(clients, log_name):
    """Insert events, tick, and open the batch that holds them, as consumer `c`."""

    def insert_and_open(*data):
        clients.log.register_consumer(log_name, "c")
        for item in data:
            clients.log.insert_event(log_name, "t", item)
        clients.log.log_tick(log_name)
        return clients.log.next_batch(log_name, "c")

    return insert_and_open


def streamed(clients, *arguments, limit=None, **options):
    """Return the data of the events that a stream yields, up to a limit."""
    events = clients.log.stream_batch_events(*arguments, **options)
    if inspect.isgenerator(events):
        found = [event.ev_data for event, _ in zip(events, range(limit or 10**9), strict=False)]
        events.close()
        return found

    async def collect():
        found = []
        async with aclosing(events):
            async for event in events:
                found.append(event.ev_data)
                if len(found) == limit:
                    break
        return found

    return clients.run(collect())


def test_a_batch_is_opened_with_its_ticks(clients, log_name, batch_of):
    batch_id = batch_of("one", "two")

    batch = clients.log.next_batch_info(log_name, "c")

    assert type(batch) is OpenBatch
    assert (batch.batch_id, batch.prev_tick_id, batch.cur_tick_id) == (batch_id, 1, 2)
    assert batch.cur_tick_event_seq - batch.prev_tick_event_seq == 2
    assert batch.prev_tick_time < batch.cur_tick_time
    clients.log.finish_batch(batch_id)
    assert clients.log.next_batch_info(log_name, "c") is None


def test_a_batch_collects_ticks_up_to_a_count(clients, log_name):
    clients.log.register_consumer(log_name, "c")
    for _ in range(4):
        clients.log.insert_event(log_name, "t", "x")
        clients.log.log_tick(log_name)

    batch = clients.log.next_batch_custom(log_name, "c", min_count=3)
    assert batch.cur_tick_id - batch.prev_tick_id >= 3
    clients.log.finish_batch(batch.batch_id)

    options = {"min_lag": timedelta(hours=1), "min_interval": timedelta(hours=1)}
    assert clients.log.next_batch_custom(log_name, "c", **options) is None


def test_an_open_batch_is_described_and_a_finished_one_is_not(clients, log_name, batch_of):
    batch_id = batch_of("one")

    info = clients.log.get_batch_info(batch_id)

    assert type(info) is BatchInfo
    assert (info.log_name, info.consumer_name) == (log_name, "c")
    assert (info.prev_tick_id, info.tick_id) == (1, 2)
    assert timedelta(0) <= info.lag < SOON
    clients.log.finish_batch(batch_id)
    assert clients.log.get_batch_info(batch_id) is None


@pytest.mark.parametrize("method", ["next_batch", "next_batch_info", "next_batch_custom"])
def test_a_consumer_that_is_not_registered_is_an_error(clients, log_name, method):
    with pytest.raises(ConsumerNotFoundError, match="register_consumer"):
        getattr(clients.log, method)(log_name, "nobody")


# --- reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fetch_qty", [1, 2, 1000])
def test_a_stream_gives_every_event_in_order(clients, batch_of, fetch_qty):
    batch_id = batch_of("one", "two", "three")

    for _ in range(2):
        found = streamed(clients, batch_id, fetch_qty=fetch_qty)
        assert found == ["one", "two", "three"]


def test_a_stream_in_the_callers_transaction_leaves_it_open(caller, log_name, observer):
    caller.log.register_consumer(log_name, "c")
    caller.log.insert_event(log_name, "t", "x")
    caller.source.commit()
    caller.log.log_tick(log_name)
    caller.source.commit()
    batch_id = caller.log.next_batch(log_name, "c")

    assert streamed(caller, batch_id) == ["x"]
    assert caller.log.finish_batch(batch_id)
    caller.source.rollback()

    assert observer.execute(
        "select current_batch from pgq.get_consumer_info(%s, 'c')", [log_name]
    ).fetchone() == (None,)


def test_a_stream_that_is_left_early_leaves_nothing_behind(clients, batch_of):
    batch_id = batch_of("one", "two", "three")

    assert streamed(clients, batch_id, fetch_qty=1, limit=1) == ["one"]

    cursors = "select count(*) from pg_cursors where name like 'pgsluice%'"
    assert clients.value(cursors) == 0
    assert streamed(clients, batch_id) == ["one", "two", "three"]


def test_a_batch_that_is_not_open_cannot_be_streamed(clients, batch_of):
    batch_id = batch_of("one")
    clients.log.finish_batch(batch_id)

    with pytest.raises(BatchNotFoundError):
        streamed(clients, batch_id)
    with pytest.raises(ArgumentError, match="fetch_qty"):
        streamed(clients, batch_id, fetch_qty=0)


@pytest.mark.slow
def test_a_stream_of_many_events_needs_little_memory(clients, log_name, observer):
    clients.log.register_consumer(log_name, "c")
    data = "x" * 1000
    observer.execute(
        "select count(pgq.insert_event(%s, 't', %s)) from generate_series(1, 10000)",
        [log_name, data],
    )
    clients.log.log_tick(log_name)
    batch_id = clients.log.next_batch(log_name, "c")
    events = clients.log.stream_batch_events(batch_id, fetch_qty=100)

    async def count_async():
        count = 0
        async for _ in events:
            count += 1
        return count

    gc.collect()
    tracemalloc.start()
    try:
        count = (
            sum(1 for _ in events) if inspect.isgenerator(events) else clients.run(count_async())
        )
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert count == 10_000
    assert peak_bytes < 2_000_000  # the events have 10 MB


def test_pages_go_on_behind_an_event(clients, batch_of):
    batch_id = batch_of("one", "two", "three")

    first = clients.log.get_batch_page(batch_id, qty=2)
    second = clients.log.get_batch_page(batch_id, first[-1].ev_id, qty=2)

    assert [e.ev_data for e in first] == ["one", "two"]
    assert [e.ev_data for e in second] == ["three"]
    with pytest.raises(ArgumentError, match="qty"):
        clients.log.get_batch_page(batch_id, qty=0)


# --- retries -------------------------------------------------------------------------------------


def redelivered_events(clients, log_name, batch_id):
    clients.log.finish_batch(batch_id)
    while clients.log.maint_retry_events():
        pass
    clients.log.log_tick(log_name)
    batch_id = clients.log.next_batch(log_name, "c")
    return [(e.ev_data, e.ev_retry) for e in clients.log.get_batch_events(batch_id)]


@pytest.mark.parametrize("retry_after", [0, datetime(2020, 1, 1, tzinfo=UTC)])
def test_event_is_retried_once(clients, log_name, batch_of, retry_after):
    batch_id = batch_of("one", "two")
    first, _ = clients.log.get_batch_events(batch_id)

    assert clients.log.event_retry(batch_id, first.ev_id, retry_after) is True
    assert clients.log.event_retry(batch_id, first.ev_id, retry_after) is False

    assert redelivered_events(clients, log_name, batch_id) == [("one", 1)]


def test_batch_retry_redelivers_all_events(clients, log_name, batch_of):
    batch_id = batch_of("one", "two")

    assert clients.log.batch_retry(batch_id, 0) == 2
    assert clients.log.batch_retry(batch_id, 0) == 0

    assert redelivered_events(clients, log_name, batch_id) == [("one", 1), ("two", 1)]


def test_retry_redelivers_the_given_events(clients, log_name, batch_of):
    batch_id = batch_of("one", "two", "three")
    one, _, three = (e.ev_id for e in clients.log.get_batch_events(batch_id))

    assert clients.log.retry(batch_id, [one, three], delay=timedelta(0)) == 2
    assert clients.log.retry(batch_id, [one], delay=timedelta(0)) == 0
    with pytest.raises(ArgumentError, match="does not have all"):
        clients.log.retry(batch_id, [one, 10**12], delay=timedelta(0))

    assert redelivered_events(clients, log_name, batch_id) == [("one", 1), ("three", 1)]


def test_delay_that_is_not_a_number_of_seconds_is_refused(clients, batch_of):
    batch_id = batch_of("one")

    with pytest.raises(ArgumentError, match="retry_after"):
        clients.log.event_retry(batch_id, 1, -1)
    with pytest.raises(ArgumentError, match="without a time zone"):
        clients.log.event_retry(batch_id, 1, datetime(2020, 1, 1))  # noqa: DTZ001
    with pytest.raises(ArgumentError, match="retry_seconds"):
        clients.log.batch_retry(batch_id, -1)


# --- exclusive processing ------------------------------------------------------------------------


def test_a_batch_is_held_by_one_session_up_to_the_end_of_its_transaction(
    make, shared_url, log_name, observer
):
    first, second = (make.connection(shared_url) for _ in range(2))
    observer.execute("select pgq.register_consumer(%s, 'c')", [log_name])
    observer.execute("select pgq.insert_event(%s, 't', 'x')", [log_name])
    observer.execute("select sluice.log_tick(%s)", [log_name])
    batch_id = value(observer, "select pgq.next_batch(%s, 'c')", log_name)

    first.log.hold_batch(batch_id)
    with pytest.raises(LogStateError, match="processed by another session"):
        second.log.hold_batch(batch_id)
    second.source.rollback()
    assert first.log.finish_batch(batch_id) is True
    first.source.commit()

    with pytest.raises(BatchNotFoundError):
        second.log.hold_batch(batch_id)


def test_lock_timeout_is_reported(make, shared_url, log_name):
    first = make.connection(shared_url)
    second = make.connection(shared_url, autocommit=True, options="-c lock_timeout=50ms")
    first.log.register_consumer(log_name, "c")
    first.log.insert_event(log_name, "t", "x")
    first.source.commit()
    first.log.log_tick(log_name)
    first.source.commit()
    batch_id = first.log.next_batch(log_name, "c")
    first.source.commit()
    first.log.hold_batch(batch_id)

    with pytest.raises(RetryableError):
        second.log.next_batch(log_name, "c")
    first.source.rollback()
