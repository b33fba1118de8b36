"""The ticker on a real server: its adaptive period, and several tickers at once."""

from __future__ import annotations

import itertools
import threading

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from pgsluice import EventLog, Ticker
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls.logs import await_groups
from pgsluice.errors import ArgumentError, NotInstalledError
from support import rows, value, wait_until
from support.listen import running

_names = itertools.count(1)


@pytest.fixture
def log(observer):
    """A log whose own settings allow a tick only after an hour."""
    name = f"ticked_{next(_names)}"
    log = EventLog(observer)
    log.create(name)
    log.set_queue_config(name, "ticker_max_lag", "1 hour")
    yield name
    log.drop(name, force=True)


def last_tick(observer, log):
    return EventLog(observer).get_queue_info(log)[0].last_tick_id


def test_an_event_is_ticked_at_once_whatever_the_log_settings_say(pool, observer, log):
    with running(Ticker(pool)):
        for tick_id in (2, 3):
            EventLog(observer).insert_event(log, "t", "x")
            wait_until(lambda tick_id=tick_id: last_tick(observer, log) == tick_id, "the tick")


def test_it_looks_rarely_when_nothing_arrives_and_often_again_when_something_does(
    pool, observer, log
):
    ticker = Ticker(pool, period_min_s=0.01, period_max_s=0.16)
    with running(ticker):
        wait_until(lambda: ticker.period_s == 0.16, "the longest period")
        EventLog(observer).insert_event(log, "t", "x")
        wait_until(lambda: ticker.period_s == 0.01, "the shortest period")


def test_several_tickers_make_ticks_in_the_order_of_their_snapshots(pool, observer, log):
    EventLog(observer).register_consumer(log, "c")
    with running(Ticker(pool)), running(Ticker(pool)), running(Ticker(pool)):
        ids = [EventLog(observer).insert_event(log, "t", str(n)) for n in range(300)]
        wait_until(lambda: EventLog(observer).get_queue_info(log)[0].ev_new == 0, "the last tick")

    seen = []
    while (batch_id := EventLog(observer).next_batch(log, "c")) is not None:
        seen += [event.ev_id for event in EventLog(observer).get_batch_events(batch_id)]
        EventLog(observer).finish_batch(batch_id)
    assert seen == ids


def test_rolled_back_events_do_not_count_as_events_without_a_tick_for_ever(pool, observer, log):
    def new_ids():
        return EventLog(observer).get_queue_info(log)[0].ev_new

    with observer.transaction(force_rollback=True):
        EventLog(observer).insert_event(log, "t", "x")
    assert new_ids() == 1

    with running(Ticker(pool)):
        wait_until(lambda: new_ids() == 0, "a tick with the number of the event")
        ticks = last_tick(observer, log)
    assert [tick.log_name for tick in Ticker(pool).run_once()] == []
    assert last_tick(observer, log) == ticks


def test_claim_waiter_is_woken_between_two_ticks(pool, observer, worker_url, log):
    observer.execute("select sluice.create_group(%s, 'g')", [log])
    with psycopg.connect(worker_url, autocommit=True) as listener:
        listener.execute("select sluice.listen(%s, 'log')", [log])
        received = []

        def wakes():
            EventLog(observer).insert_event(log, "t", "x")
            received.extend(n.payload for n in listener.notifies(timeout=0.02))
            return received.count("")

        # With a tick every half second, most events are noticed before the next tick.
        with running(Ticker(pool, period_min_s=0.5, period_max_s=0.5)):
            wait_until(lambda: wakes() >= 5, "the listener to be woken between ticks")
    assert received.count("") > len(received) / 2


@pytest.mark.slow
def test_first_event_after_a_pause_wakes_claim_waiters_and_is_ticked(
    pool, observer, worker_url, log
):
    observer.execute("select sluice.create_group(%s, 'g')", [log])
    EventLog(observer).insert_event(log, "t", "x")
    ticker = Ticker(pool, period_min_s=60, period_max_s=60)
    with psycopg.connect(worker_url, autocommit=True) as listener:
        listener.execute("select sluice.listen(%s, 'log')", [log])
        listener.execute('unlisten "sluice.ticker"')
        with running(ticker):
            assert [n.payload for n in listener.notifies(timeout=10, stop_after=1)] == ["2"]
            assert list(listener.notifies(timeout=1.2)) == []  # no longer busy
            EventLog(observer).insert_event(log, "t", "x")

            found = listener.notifies(timeout=10, stop_after=2)
            assert [n.payload for n in found] == ["", "3"]


def test_logs_that_are_paused_are_left_alone(pool, observer, log):
    EventLog(observer).set_queue_config(log, "ticker_paused", "true")
    EventLog(observer).insert_event(log, "t", "x")

    assert Ticker(pool).run_once() == []

    EventLog(observer).set_queue_config(log, "ticker_paused", "false")
    (tick,) = Ticker(pool).run_once()
    assert (tick.log_name, tick.tick_id) == (log, 2)
    assert rows(observer, "select * from pgq.ticker(%s)", log) == [(None,)]


def test_a_database_without_the_schema_ends_it(server_18):
    with (
        ConnectionPool(server_18.url("template1"), min_size=1, max_size=1, open=True) as empty,
        pytest.raises(NotInstalledError),
    ):
        Ticker(empty).run(threading.Event())


@pytest.mark.parametrize("periods", [{"period_min_s": 0}, {"period_min_s": 2, "period_max_s": 1}])
def test_periods_that_could_not_work_are_refused(pool, periods):
    with pytest.raises(ArgumentError, match="more than 0 seconds"):
        Ticker(pool, **periods)


def test_a_notification_of_claims_does_not_wait_for_the_disk(pool):
    with pool.connection() as connection:
        connection.execute("set synchronous_commit = on")

        logs, woken = Runner(connection).run(await_groups(0.0, 0.001))

        assert (logs, woken) == (0, 0), "this session has ticked nothing"
        assert value(connection, "show synchronous_commit") == "off"
        connection.rollback()


def test_waiting_claims_are_notified_between_ticks_once_a_tick_has_been_taken(
    pool, observer, worker_url, log
):
    """A ticker that has ticked no log with share groups does not look for their events for a second."""
    observer.execute("select sluice.create_group(%s, 'g')", [log])
    with psycopg.connect(worker_url, autocommit=True) as listener:
        listener.execute('listen "sluice.ticker"')
        with running(Ticker(pool, period_min_s=0.4, period_max_s=0.4)):
            assert any(listener.notifies(timeout=10, stop_after=1)), "a heartbeat without events"
            listener.execute('unlisten "sluice.ticker"')
            listener.execute("select sluice.listen(%s, 'log')", [log])
            payloads = []
            for _ in range(2):
                EventLog(observer).insert_event(log, "t", "x")
                (notification,) = listener.notifies(timeout=10, stop_after=1)
                payloads.append(notification.payload)

    assert payloads == ["2", ""], "a tick for the first event, none for the second"
