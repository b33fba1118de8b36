"""Every method of the event log clients, sync and async, on a pool and on a connection."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pgsluice import ConsumerInfo, Event, LogInfo
from pgsluice.errors import (
    BatchNotFoundError,
    ConsumerNotFoundError,
    LogInUseError,
    LogNotFoundError,
    LogStateError,
    PayloadError,
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
        assert clients.log.ticker(log_name) is not None
        return clients.log.next_batch(log_name, "c")

    return insert_and_open


def test_a_log_is_created_once_and_dropped_once(clients, log_name):
    other = f"{log_name}_other"

    assert clients.log.create(other) is True
    assert clients.log.create(other) is False
    assert clients.log.drop(other) is None
    with pytest.raises(LogNotFoundError):
        clients.log.drop(other)


def test_a_log_with_consumers_is_dropped_only_by_force(clients, log_name):
    clients.log.register_consumer(log_name, "c")

    with pytest.raises(LogInUseError):
        clients.log.drop(log_name)
    clients.log.drop(log_name, force=True)

    assert clients.log.get_queue_info(log_name) == []
    assert clients.log.get_consumer_info(log_name) == []


def test_a_consumer_is_registered_once_and_unregistered_once(clients, log_name):
    assert clients.log.register_consumer(log_name, "c") is True
    assert clients.log.register_consumer(log_name, "c") is False
    assert clients.log.unregister_consumer(log_name, "c") == 1
    assert clients.log.unregister_consumer(log_name, "c") == 0


def test_inserted_event_is_delivered_with_all_its_fields(clients, log_name):
    clients.log.register_consumer(log_name, "c")
    extras = {f"ev_extra{n}": f"é{n}" for n in range(1, 5)}

    full = clients.log.insert_event(log_name, "c", '{"a": 1}', **extras)
    bare = clients.log.insert_event(log_name, None, None)
    clients.log.ticker(log_name)
    events = clients.log.get_batch_events(clients.log.next_batch(log_name, "c"))

    assert bare > full
    assert [event.ev_id for event in events] == [full, bare]
    first, second = events
    assert type(first) is Event
    assert (first.ev_type, first.ev_data, first.ev_retry) == ("c", '{"a": 1}', None)
    assert {name: getattr(first, name) for name in extras} == extras
    assert abs(datetime.now(UTC) - first.ev_time) < SOON
    assert second.ev_txid > first.ev_txid > 0
    assert (second.ev_type, second.ev_data, second.ev_extra4) == (None, None, None)


def test_events_come_in_the_batch_of_the_tick_that_follows_them(clients, log_name, batch_of):
    batch_id = batch_of("one", "two")

    assert clients.log.next_batch(log_name, "c") == batch_id
    for _ in range(2):
        assert [e.ev_data for e in clients.log.get_batch_events(batch_id)] == ["one", "two"]
    assert clients.log.finish_batch(batch_id) is True
    assert clients.log.next_batch(log_name, "c") is None


def test_a_tick_that_is_not_due_is_none(clients, log_name):
    assert clients.log.ticker(log_name) is None
    clients.log.insert_event(log_name, "t", "x")
    first = clients.log.ticker(log_name)
    clients.log.insert_event(log_name, "t", "x")

    assert clients.log.ticker(log_name) > first
    assert clients.log.ticker(log_name) is None


def test_all_logs_that_are_due_are_ticked_and_counted(make, database_18):
    log = make.pool(database_18.url).log
    assert log.ticker_all() == 0
    with database_18.connect() as connection:
        for name in ("a", "b", "c"):
            log.create(name)
        connection.execute("update pgq.queue set queue_ticker_max_count = 1")
    log.insert_event("a", "t", "x")
    log.insert_event("c", "t", "x")

    assert log.ticker_all() == 2
    assert log.ticker_all() == 0


def test_a_finished_batch_cannot_be_read_or_finished_again(clients, log_name, batch_of):
    batch_id = batch_of("one")
    clients.log.finish_batch(batch_id)

    with pytest.raises(BatchNotFoundError, match="next_batch"):
        clients.log.get_batch_events(batch_id)
    assert clients.log.finish_batch(batch_id) is False


def test_the_state_of_a_log_is_reported(clients, log_name):
    clients.log.insert_event(log_name, "t", "x")

    (info,) = clients.log.get_queue_info(log_name)

    assert type(info) is LogInfo
    assert (info.log_name, info.queue_ticker_max_count, info.ev_new) == (log_name, 1, 1)
    assert info.last_tick_id == 1
    assert timedelta(0) <= info.ticker_lag < SOON
    assert clients.log.get_queue_info("nope") == []


def test_all_logs_and_consumers_are_reported_by_name(make, database_18):
    log = make.connection(database_18.url, autocommit=True).log
    for name in ("b", "a"):
        log.create(name)
        log.register_consumer(name, "y")
        log.register_consumer(name, "x")

    assert [info.log_name for info in log.get_queue_info()] == ["a", "b"]
    consumers = [(info.log_name, info.consumer_name) for info in log.get_consumer_info()]
    assert consumers == [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]
    assert [info.log_name for info in log.get_consumer_info(None, "x")] == ["a", "b"]


def test_the_position_of_a_consumer_is_reported(clients, log_name, batch_of):
    batch_id = batch_of("one", "two")

    (opened,) = clients.log.get_consumer_info(log_name, "c")
    clients.log.finish_batch(batch_id)
    (finished,) = clients.log.get_consumer_info(log_name, "c")

    assert type(opened) is ConsumerInfo
    assert (opened.last_tick, opened.current_batch, opened.next_tick) == (1, batch_id, 2)
    assert opened.pending_events == 2
    assert (finished.last_tick, finished.current_batch, finished.next_tick) == (2, None, None)
    assert finished.pending_events == 0
    assert timedelta(0) <= finished.lag < SOON


@pytest.mark.parametrize(
    "call",
    [
        lambda log: log.insert_event("nope", "t", "x"),
        lambda log: log.register_consumer("nope", "c"),
        lambda log: log.ticker("nope"),
        lambda log: log.drop("nope"),
    ],
    ids=["insert_event", "register_consumer", "ticker", "drop"],
)
def test_a_log_that_does_not_exist_is_an_error_with_a_hint(clients, call):
    with pytest.raises(LogNotFoundError, match=r"create it with create\(") as caught:
        call(clients.log)

    assert caught.value.sqlstate == "PQ001"


def test_a_consumer_that_is_not_registered_is_an_error_with_a_hint(clients, log_name):
    with pytest.raises(ConsumerNotFoundError, match="register_consumer") as caught:
        clients.log.next_batch(log_name, "stranger")

    assert caught.value.sqlstate == "PQ002"


def test_a_paused_log_cannot_be_ticked(clients, log_name, observer):
    observer.execute(
        "update pgq.queue set queue_ticker_paused = true where queue_name = %s", [log_name]
    )

    with pytest.raises(LogStateError, match="queue_ticker_paused"):
        clients.log.ticker(log_name)


def test_an_event_that_cannot_be_stored_is_refused_and_none_is_inserted(
    clients, log_name, observer
):
    with pytest.raises(PayloadError, match="ev_data holds a NUL"):
        clients.log.insert_event(log_name, "t", "a\x00b")

    prefix = value(observer, "select queue_data_pfx from pgq.queue where queue_name = %s", log_name)
    assert value(observer, f"select count(*) from {prefix}") == 0
