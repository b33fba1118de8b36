"""Each handler gets a session without state of the previous handler."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.adapt import PyFormat
from psycopg.rows import dict_row
from psycopg.types.string import StrDumper
from psycopg_pool import AsyncConnectionPool

from pgsluice import WorkQueue
from pgsluice.worker import App, Context, SyncContext
from pgsluice.worker.engine.flow.worker import Worker
from support.pooler import pooling
from worker.test_worker import drained

STATE = """
    select current_setting('search_path'), current_setting('timezone'), current_setting('statement_timeout'),
        current_setting('application_name'), current_setting('client_encoding'),
        current_setting('client_connection_check_interval'),
        current_user::text, current_setting('transaction_isolation'), current_setting('transaction_read_only'),
        (select array_agg(c) from pg_listening_channels() as c),
        (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()),
        (select count(*) from pg_cursors), to_regclass('left_over')::text"""
CHANGES = [
    "set search_path = pg_temp, public",
    "set timezone = 'Asia/Tokyo'",
    "set statement_timeout = '60 s'",
    "listen noise",
    "select pg_advisory_lock(4711)",
    "create temp table left_over (n integer)",
    "declare stays cursor with hold for select 1",
    "set role pg_monitor",
]


def change_python(connection):
    connection.row_factory = dict_row
    connection.prepare_threshold = 0
    connection.add_notice_handler(print)
    connection.adapters.register_dumper(int, StrDumper)


def python_state(connection):
    return (
        connection.row_factory,
        connection.cursor_factory,
        connection.prepare_threshold,
        list(connection._notice_handlers),
        connection.adapters.get_dumper(int, PyFormat.AUTO),
    )


@pytest.fixture(params=["server", "pooler"])
def url(request, worker_url, servers_folder):
    """The URL of the server, and of a pooler in session mode."""
    if request.param == "server":
        yield worker_url
        return
    with pooling(worker_url, servers_folder, mode="session") as pooled:
        yield pooled


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
async def test_session_settings_of_a_handler_are_reset_for_the_next(
    url, observer, queue_name, is_async
):
    app = App(psycopg.conninfo.make_conninfo(url, client_encoding="latin1"), name="tests")
    seen = []
    options = {"name": "tested", "concurrency": 1, "mode": "transaction"}

    async def in_loop(payload, context: Context):
        async with context.transaction() as connection:
            state = await (await connection.execute(STATE)).fetchone()
            seen.append((connection.info.backend_pid, state, python_state(connection)))
            if payload == 1:
                change_python(connection)
                for change in CHANGES:
                    await connection.execute(change)

    def in_thread(payload, context: SyncContext):
        with context.transaction() as connection:
            state = connection.execute(STATE).fetchone()
            seen.append((connection.info.backend_pid, state, python_state(connection)))
            if payload == 1:
                change_python(connection)
                for change in CHANGES:
                    connection.execute(change)

    app.handler(queue_name, **options)(in_loop if is_async else in_thread)
    WorkQueue(observer).send_batch(queue_name, [1, 2])

    counts = await drained(app)

    assert counts.done == 2
    (first_pid, *first), (second_pid, *second) = seen
    assert first_pid == second_pid
    assert second == first


async def test_statements_stay_prepared_for_the_next_handler(worker_url, observer, queue_name):
    app, seen = App(worker_url, name="tests"), []

    @app.handler(queue_name, name="tested", concurrency=1, mode="transaction")
    async def tested(_payload, context: Context):
        async with context.transaction() as connection:
            await connection.execute("select 4711", prepare=True)
            prepared = "select prepare_time::text from pg_prepared_statements where statement = 'select 4711'"
            (found,) = await (await connection.execute(prepared)).fetchall()
            seen.append((connection.info.backend_pid, *found))

    WorkQueue(observer).send_batch(queue_name, [1, 2])

    assert (await drained(app)).done == 2
    assert seen[0] == seen[1]


async def test_a_pool_that_is_given_resets_its_connections_itself(worker_url, observer, queue_name):
    app, seen, resets = App(worker_url, name="tests"), [], []

    @app.handler(queue_name, name="tested", concurrency=1)
    async def tested(_payload, context: Context):
        async with context.transaction() as connection:
            setting = await connection.execute("select current_setting('timezone')")
            seen.append((await setting.fetchone())[0])
            await connection.execute("set timezone = 'Asia/Tokyo'")

    async def reset(connection: AsyncConnection) -> None:
        resets.append(connection)

    WorkQueue(observer).send_batch(queue_name, [1, 2])
    async with AsyncConnectionPool(
        worker_url, min_size=1, max_size=1, reset=reset, open=False
    ) as pool:
        await Worker(app, pool=pool).run_until_empty(idle_s=0.2)

    assert seen[0] != "Asia/Tokyo"
    assert seen[1] == "Asia/Tokyo"
    assert len(resets) >= 2
