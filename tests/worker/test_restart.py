"""Workers and tickers continue after a crash and restart of the server."""

from __future__ import annotations

import asyncio
import threading

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from pgsluice import (
    App,
    Context,
    EventLog,
    Maintenance,
    RetryPolicy,
    Ticker,
    Worker,
    WorkQueue,
)
from support import value, wait_until
from support.consume import Consuming
from support.crash import server_to_crash


@pytest.fixture(scope="module")
def crashing_server(servers_folder):
    with server_to_crash(servers_folder) as server:
        yield server


@pytest.fixture
def pool(crashing_server):
    with ConnectionPool(
        crashing_server.url(), min_size=1, max_size=4, open=True, timeout=1, reconnect_timeout=600
    ) as pool:
        pool.wait()
        yield pool


class Background:
    """A thread whose end and error are observable."""

    def __init__(self, run):
        self.stop = threading.Event()
        self.error = None
        self._thread = threading.Thread(target=self._guarded, args=[run])

    def _guarded(self, run):
        try:
            run(self.stop)
        except Exception as error:
            self.error = error

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self.stop.set()
        self._thread.join()
        assert self.error is None

    @property
    def alive(self):
        return self._thread.is_alive()


def fetch(server, query, *parameters):
    with psycopg.connect(server.url(), autocommit=True) as connection:
        return value(connection, query, *parameters)


@pytest.mark.parametrize("style", ["fast", "immediate"])
async def test_a_restart_costs_no_attempt(crashing_server, style):
    count, name = 100, f"restart_{style}"
    with psycopg.connect(crashing_server.url(), autocommit=True) as connection:
        WorkQueue(connection).create(name)
        WorkQueue(connection).send_batch(name, list(range(count)))
        connection.execute(f"create table effect_of_{name} (msg_id bigint)")
    app = App(crashing_server.url(), name="restarted")
    in_hand, stopped = asyncio.Event(), asyncio.Event()

    @app.handler(name, name="tested", retry=RetryPolicy(max_attempts=1))
    async def handle(_payload, context: Context):
        async with context.transaction() as connection:
            sql = f"insert into effect_of_{name} values (%s)"
            await connection.execute(sql, [context.message_id])
            if context.message_id >= 50 and not stopped.is_set():
                in_hand.set()
                await stopped.wait()

    worker = Worker(app)
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(90):
        await in_hand.wait()
        await asyncio.to_thread(crashing_server.stop, style)
        stopped.set()
        await asyncio.to_thread(crashing_server.start)
        while not await asyncio.to_thread(
            fetch, crashing_server, f"select count(*) = 0 from pgmq.q_{name}"
        ):
            assert not running.done()
        worker.stop()
        await running

    assert fetch(crashing_server, f"select count(*) from pgmq.a_{name}") == count
    assert fetch(crashing_server, "select count(*) from sluice.dead_letter") == 0
    effects = f"select (count(*), count(distinct msg_id))::text from effect_of_{name}"
    assert fetch(crashing_server, effects) == f"({count},{count})"
    assert worker.counts()["tested"].released > 0


@pytest.mark.slow
def test_a_ticker_ticks_and_outlives_a_crash(crashing_server, pool):
    with psycopg.connect(crashing_server.url(), autocommit=True) as connection:
        EventLog(connection).create("ticked")
        connection.execute("update pgq.queue set queue_ticker_max_count = 1")
        EventLog(connection).register_consumer("ticked", "c")

    def insert_and_wait_for_a_tick(background, what):
        with psycopg.connect(crashing_server.url(), autocommit=True) as connection:
            log = EventLog(connection)
            last = log.get_queue_info("ticked")[0].last_tick_id
            log.insert_event("ticked", "t", what)
            wait_until(
                lambda: not background.alive or log.get_queue_info("ticked")[0].last_tick_id > last,
                f"a tick {what}",
                deadline_s=60,
            )

    with Background(Ticker(pool).run) as background:
        insert_and_wait_for_a_tick(background, "before the crash")
        crashing_server.stop("immediate")
        crashing_server.start()
        insert_and_wait_for_a_tick(background, "after the crash")
        assert background.alive

    seen = []
    with psycopg.connect(crashing_server.url(), autocommit=True) as connection:
        log = EventLog(connection)
        while (batch_id := log.next_batch("ticked", "c")) is not None:
            seen += [event.ev_data for event in log.get_batch_events(batch_id)]
            log.finish_batch(batch_id)
    assert seen == ["before the crash", "after the crash"]


def test_a_stopped_ticker_ends(pool):
    with Background(Ticker(pool, period_min_s=3600, period_max_s=3600).run) as background:
        background.stop.set()
        wait_until(lambda: not background.alive, "the ticker to end")


@pytest.mark.slow
@pytest.mark.parametrize("style", ["sync", "async"])
def test_a_consumer_outlives_a_crash_and_every_event_has_one_effect(crashing_server, pool, style):
    count, name = 300, f"crash_{style}"
    with psycopg.connect(crashing_server.url(), autocommit=True) as connection:
        log = EventLog(connection)
        log.create(name)
        log.register_consumer(name, "c")
        connection.execute(f"create table effect_{style} (ev_id bigint)")
        for _ in range(10):
            for n in range(count // 10):
                log.insert_event(name, "t", str(n))
            log.log_tick(name)
    in_hand, crashed = threading.Event(), threading.Event()
    handled = []

    def handler(connection, event):
        yield connection.execute(f"insert into effect_{style} values (%s)", [event.ev_id])
        handled.append(event.ev_id)
        if len(handled) == count // 2 and not crashed.is_set():
            in_hand.set()
            assert crashed.wait(60)

    consuming = Consuming(style, crashing_server.url())
    with consuming.running(name, "c", on_event=handler, poll_interval_s=0.1) as background:
        assert in_hand.wait(60)
        crashing_server.stop("immediate")
        crashed.set()
        crashing_server.start()
        wait_until(
            lambda: (
                not background.alive
                or fetch(crashing_server, f"select count(*) from effect_{style}") == count
            ),
            "all events to be handled",
            deadline_s=60,
        )
        # Notifications arrive on the new connection, too.
        with psycopg.connect(crashing_server.url(), autocommit=True) as connection:
            EventLog(connection).insert_event(name, "t", "after")
            EventLog(connection).log_tick(name)
        wait_until(
            lambda: fetch(crashing_server, f"select count(*) from effect_{style}") == count + 1,
            "the event after the crash",
        )
        assert background.alive

    effects = f"select (count(*), count(distinct ev_id))::text from effect_{style}"
    assert fetch(crashing_server, effects) == f"({count + 1},{count + 1})"


@pytest.mark.slow
def test_maintenance_outlives_a_crash(crashing_server, pool):
    with psycopg.connect(crashing_server.url(), autocommit=True) as connection:
        EventLog(connection).create("kept")
        EventLog(connection).set_queue_config("kept", "rotation_period", "0")
    segment = "select queue_cur_table from pgq.queue where queue_name = 'kept'"

    def wait_for_a_rotation(background):
        before = fetch(crashing_server, segment)
        wait_until(
            lambda: not background.alive or fetch(crashing_server, segment) != before,
            "a rotation",
            deadline_s=60,
        )

    with Background(Maintenance(pool, period_s=0.05).run) as background:
        wait_for_a_rotation(background)
        crashing_server.stop("immediate")
        crashing_server.start()
        wait_for_a_rotation(background)
        assert background.alive
