"""How many connections a worker has at most, and what the start check says of it."""

from __future__ import annotations

import asyncio
import threading

import psycopg
import pytest

from pgsluice import WorkQueue
from pgsluice.connection import resolve
from pgsluice.errors import ArgumentError
from pgsluice.worker import App, Context, SyncContext, start_checks
from pgsluice.worker.runtime import connections
from pgsluice.worker.runtime.connection_shares import Shares
from pgsluice.worker.worker import Worker, WorkerOptions
from support import value
from support_pooler import pooling
from support_runtime import running, until

OTHERS = (
    "select count(*) from pg_stat_activity where datname = current_database() "
    "and backend_type = 'client backend' and pid <> pg_backend_pid()"
)


class Peak:
    """The most connections that others had to a database while the block ran."""

    def __init__(self, url):
        self._url = url
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.connections = 0

    def _look(self):
        with psycopg.connect(self._url, autocommit=True) as connection:
            before = value(connection, OTHERS)
            while not self._end.is_set():
                self.connections = max(self.connections, value(connection, OTHERS) - before)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._end.set()
        self._thread.join()


def make_app(url, queue_names):
    """An app in which every other handler is a `def`."""
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
    with pytest.raises(ArgumentError, match="these handlers need 8 or more: 1 for claims"):
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

    (line,) = [each for each in caplog.messages if each.startswith("connections: ")]
    assert "up to 1000 in this process; " in line
    assert f"left for role {role}: server " in line
    assert "use fewer with --max-connections" in line
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
    assert [line for line in caplog.messages if line.startswith("connections: ")] == []
    start_checks.require(resolve(worker_url), app.handlers.values(), 1_000)
    assert [line for line in caplog.messages if line.startswith("connections: ")] != []


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
        await until(lambda: value(observer, OTHERS) == before + 1, "it to be closed")
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
        await until(lambda: worker.status().state == "running", "it to run")
        with psycopg.connect(worker_url) as ddl:
            ddl.execute(f"lock table pgmq.q_{locked} in access exclusive mode")
            waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
            queue.send_batch(other, list(range(100)))
            await until(lambda: value(observer, waits) > 0, "a statement to wait for the lock")
            done = f"select count(*) from pgmq.a_{other}"
            await until(lambda: value(observer, done) == 100, "the other queue to be handled")
            assert value(observer, waits) <= 4
