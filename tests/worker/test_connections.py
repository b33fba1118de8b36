"""Connection limit of a worker, and its check at startup."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg_pool import PoolTimeout

from pgsluice import WorkQueue
from pgsluice.connection import resolve
from pgsluice.errors import ArgumentError
from pgsluice.worker import App, Context, SyncContext
from pgsluice.worker.engine.claim import start_checks
from pgsluice.worker.engine.connections import connections
from pgsluice.worker.engine.connections.connections import Connections
from pgsluice.worker.engine.connections.shares import Shares
from pgsluice.worker.engine.flow.options import WorkerOptions
from pgsluice.worker.engine.flow.worker import Worker
from support import value, wait_until
from support.pooler import pooling
from support.runtime import running, until

OTHERS = (
    "select count(*) from pg_stat_activity where datname = current_database() "
    "and backend_type = 'client backend' and pid <> pg_backend_pid()"
)


class Peak:
    """Maximum number of sessions in a database during the block, without the observer's.

    The block starts when the sessions of the test before have ended.
    """

    def __init__(self, url):
        self._url = url
        self._end = threading.Event()
        self._sampling = ThreadPoolExecutor(1)
        self.connections = 0

    def _sample(self):
        with self._connection as connection:
            while not self._end.is_set():
                self.connections = max(self.connections, value(connection, OTHERS) - 1)

    def __enter__(self):
        self._connection = psycopg.connect(self._url, autocommit=True)
        wait_until(
            lambda: value(self._connection, OTHERS) == 1,
            "the sessions of the test before to end",
        )
        self._sampled = self._sampling.submit(self._sample)
        return self

    def __exit__(self, *exception):
        self._end.set()
        self._sampled.result()
        self._sampling.shutdown()


def make_app(url, queue_names):
    """Return an app with `async def` and `def` handlers in turn."""
    app = App(url, name="tests")

    async def in_loop(_payload, context: Context):
        async with context.transaction() as connection:
            await connection.execute("select 1")

    def in_thread(_payload, context: SyncContext):
        with context.transaction() as connection:
            connection.execute("select 1")

    for number, queue_name in enumerate(queue_names):
        app.handler(queue_name, name=queue_name)(in_thread if number % 2 else in_loop)
    return app


@pytest.mark.slow
async def test_a_worker_with_fifty_handlers_keeps_to_its_connections(worker_url, observer):
    names = [f"many_{number}" for number in range(50)]
    queue = WorkQueue(observer)
    with observer.transaction():
        for name in names:
            queue.create(name)
            queue.send_batch(name, list(range(40)))
    options = WorkerOptions(max_connections=12)

    with Peak(worker_url) as peak:
        worker = Worker(make_app(worker_url, names), options=options)
        async with asyncio.timeout(120):
            counts = await worker.run_until_empty()

    assert sum(each.done for each in counts.values()) == 2_000
    assert 4 < peak.connections <= 12


@pytest.mark.parametrize(
    ("handlers", "options", "wanted"),
    [
        (1, {}, Shares(engine=4, consumers=0, loop=10, threads=0)),
        (1, {"concurrency": 2}, Shares(engine=4, consumers=0, loop=2, threads=0)),
        (2, {}, Shares(engine=8, consumers=0, loop=10, threads=10)),
        (50, {}, Shares(engine=8, consumers=0, loop=11, threads=10)),
        (50, {"max_connections": 12}, Shares(engine=8, consumers=0, loop=1, threads=2)),
        (50, {"max_connections": 5}, Shares(engine=2, consumers=0, loop=1, threads=1)),
    ],
)
def test_the_connections_of_a_process_are_divided_among_its_parts(handlers, options, wanted):
    app = make_app(None, [f"q{number}" for number in range(handlers)])

    given = WorkerOptions(**options).shares(app.handlers.values())

    assert given == wanted
    assert given.total <= options.get("max_connections", 30)


def test_each_consumer_of_a_log_has_a_connection_for_its_batch():
    app = make_app(None, ["q"])
    for number in range(5):
        app.handler(log="l", consumer=f"c{number}", name=f"c{number}")(_handle_nothing)

    assert WorkerOptions(max_connections=20).shares(app.handlers.values()).consumers == 10
    assert WorkerOptions(max_connections=9).shares(app.handlers.values()).consumers == 5
    with pytest.raises(ArgumentError, match="these handlers need at least 8: 1 for claims"):
        Worker(app, options=WorkerOptions(max_connections=7))


async def _handle_nothing(_payload):
    pass


def test_the_most_connections_are_read_from_the_environment(monkeypatch):
    app = make_app(None, ["a", "b"])
    monkeypatch.setenv("PGSLUICE_MAX_CONNECTIONS", "9")

    assert WorkerOptions().shares(app.handlers.values()).total == 9
    assert WorkerOptions(max_connections=11).shares(app.handlers.values()).total == 11


@pytest.mark.parametrize("limited", ["role", "database", "server"])
def test_the_start_check_compares_with_what_the_server_has_left(
    worker_url, observer, queue_name, caplog, limited
):
    role = f"limited_{queue_name}"
    database = value(observer, "select current_database()::text")
    limit = "connection limit 7" if limited == "role" else ""
    observer.execute(f"create role {role} login {limit} in role sluice_reader")
    if limited == "database":
        observer.execute(f"alter database {database} connection limit 7")
    app = make_app(worker_url, [queue_name])
    target = resolve(psycopg.conninfo.make_conninfo(worker_url, user=role))
    try:
        for connections in (5, 1_000):
            start_checks.require(target, app.handlers.values(), connections)
    finally:
        observer.execute(f"alter database {database} connection limit -1")
        observer.execute(f"drop role {role}")

    (line,) = [each for each in caplog.messages if each.startswith("insufficient connections ")]
    assert "up to 1000 in this process; " in line
    assert f"left for role {role} (in use: server " in line
    assert "lower --max-connections" in line
    if limited == "role":
        assert "; 7 left" in line
        assert "role 0 of 7" in line
    if limited == "database":
        assert "database 1 of 7" in line


def test_behind_a_pooler_the_start_check_compares_nothing(
    worker_url, queue_name, servers_folder, caplog
):
    app = make_app(worker_url, [queue_name])

    with pooling(worker_url, servers_folder) as pooled:
        start_checks.require(resolve(pooled), app.handlers.values(), 1_000)
    assert [line for line in caplog.messages if line.startswith("insufficient connections ")] == []
    start_checks.require(resolve(worker_url), app.handlers.values(), 1_000)
    assert [line for line in caplog.messages if line.startswith("insufficient connections ")] != []


MODULE = """
from pgsluice.worker import App, SyncContext

app = App(name="tests")

@app.handler({queue!r})
def tested(payload: int, context: SyncContext) -> None:
    with context.transaction() as connection:
        connection.execute("select 1")
"""


@pytest.mark.slow
def test_the_process_that_leads_maintenance_has_six_connections_more(
    worker_url, observer, queue_name, tmp_path
):
    (tmp_path / "app.py").write_text(MODULE.format(queue=queue_name))
    with Peak(worker_url) as peak:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "pgsluice", "worker", "run", "app:app"),
                *("--max-connections", "5"),
            ],
            env=os.environ | {"PGSLUICE_DSN": worker_url, "PYTHONPATH": str(tmp_path)},
        )
        try:
            WorkQueue(observer).send_batch(queue_name, list(range(500)))
            services = (
                "select count(distinct application_name) from pg_stat_activity "
                "where application_name like 'pgsluice %'"
            )
            done = f"select count(*) from pgmq.a_{queue_name}"
            wait_until(lambda: value(observer, done) == 500, "all to be handled", 60)
            wait_until(lambda: value(observer, services) > 1, "maintenance to start", 60)
        finally:
            process.terminate()
            process.wait(30)

    assert 5 < peak.connections <= 5 + 6


@pytest.mark.slow
async def test_connections_are_opened_when_needed_and_closed_when_not_needed(
    worker_url, observer, monkeypatch
):
    assert connections._IDLE_S == 60
    monkeypatch.setattr(connections, "_IDLE_S", 0.5)
    pools = connections.Connections(worker_url, engine_size=4, handlers_size=4)
    assert pools.engine.max_idle == 600
    before = value(observer, OTHERS)

    await pools.open()
    try:
        async with pools.engine.connection():
            assert value(observer, OTHERS) == before + 1
        async with pools.lend():
            assert value(observer, OTHERS) == before + 2
        await until(lambda: value(observer, OTHERS) == before + 1, "the connection to be closed")
        assert pools._handlers.timeout == 30
    finally:
        await pools.close()


async def test_a_queue_whose_table_is_locked_leaves_connections_for_other_queues(
    worker_url, observer, queue_name
):
    locked, other = f"{queue_name}_locked", f"{queue_name}_other"
    queue = WorkQueue(observer)
    for name in (locked, other):
        queue.create(name)
    worker = Worker(make_app(worker_url, [locked, other]))
    async with running(worker):
        await until(lambda: worker.status().state == "running", "the worker to run")
        with psycopg.connect(worker_url) as ddl:
            ddl.execute(f"lock table pgmq.q_{locked} in access exclusive mode")
            waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
            queue.send_batch(other, list(range(100)))
            await until(lambda: value(observer, waits) > 0, "a statement to wait for the lock")
            done = f"select count(*) from pgmq.a_{other}"
            await until(lambda: value(observer, done) == 100, "the other queue to be handled")
            assert value(observer, waits) <= 4


@pytest.fixture
def limited(worker_url, observer, queue_name):
    """A role with a connection limit of 0, and its URL."""
    role = f"none_{queue_name}"
    observer.execute(f"create role {role} login connection limit 0")
    yield role, psycopg.conninfo.make_conninfo(worker_url, user=role)
    observer.execute(f"drop role {role}")


@contextlib.asynccontextmanager
async def opened(url):
    connections = Connections(url, engine_size=1, handlers_size=1)
    await connections.open()
    try:
        yield connections
    finally:
        await connections.close()


@pytest.mark.slow
@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
async def test_a_handler_that_waits_for_a_connection_gets_it_when_the_server_has_room(
    observer, limited, caplog, is_async
):
    """Also after psycopg's pool has given up."""
    role, url = limited

    async def in_loop(connections):
        async with connections.lend() as lent:
            return lent.connection.info.user

    def in_thread(connections):
        with connections.lend_sync() as lent:
            return lent.connection.info.user

    async with opened(url) as connections:
        waiting = asyncio.create_task(
            in_loop(connections) if is_async else asyncio.to_thread(in_thread, connections)
        )
        await until(
            lambda: any("reconnection attempt in pool" in line for line in caplog.messages),
            "the pool to stop",
        )
        observer.execute(f"alter role {role} connection limit -1")
        async with asyncio.timeout(10):  # without it, the test would wait for 30 seconds
            assert await waiting == role


@pytest.mark.slow
async def test_the_error_of_a_caller_that_gets_no_connection_says_why(worker_url, limited):
    role, url = limited
    async with opened(url) as connections:
        with pytest.raises(PoolTimeout, match=f'too many connections for role "{role}"'):
            async with connections.engine.connection():
                pass
    async with opened(worker_url) as connections, connections.engine.connection():
        with pytest.raises(PoolTimeout, match="all 1 connections of this pool are in use"):
            async with connections.engine.connection():
                pass
