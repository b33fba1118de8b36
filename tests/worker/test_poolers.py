"""Workers behind PgBouncer: each effect once, and no session state left for other clients."""

from __future__ import annotations

import asyncio
import contextlib

import psycopg
import pytest

from pgsluice import EventLog, WorkQueue
from pgsluice.worker import App, Context, RetryPolicy, SyncContext
from pgsluice.worker.engine.flow.worker import Worker
from support import rows
from support.pooler import pooling
from support.runtime import until
from worker.test_worker import EFFECT, effects, left

MODES = ["transaction", "session"]
SESSION = """
    select current_setting('client_connection_check_interval'), current_setting('lock_timeout'),
        current_setting('synchronous_commit'), (select count(*) from pg_listening_channels()),
        (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()),
        (select count(*) from pg_prepared_statements)"""
FRESH = ("0", "0", "off", 0, 0, 0)
KINDS = ["loop", "thread", "loop-transaction", "thread-transaction"]


@pytest.fixture(scope="module")
def poolers(worker_url, servers_folder):
    """URLs of one server through a pooler in each mode."""
    with (
        pooling(worker_url, servers_folder, mode="transaction") as transaction,
        pooling(worker_url, servers_folder, mode="session") as session,
    ):
        yield {"transaction": transaction, "session": session}


def handle_with(app, queue_name, kind):
    """Add a handler of a kind that writes its effect in its transaction."""

    async def in_loop(_payload, context: Context):
        async with context.transaction() as connection:
            await connection.execute(EFFECT, [queue_name, context.message_id, kind])

    def in_thread(_payload, context: SyncContext):
        with context.transaction() as connection:
            connection.execute(EFFECT, [queue_name, context.message_id, kind])

    options = {"name": "tested", "concurrency": 3, "retry": RetryPolicy(max_attempts=1)}
    place, _, mode = kind.partition("-")
    app.handler(queue_name, mode=mode or "lease", **options)(
        in_loop if place == "loop" else in_thread
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
async def test_behind_a_pooler_each_message_has_one_effect(
    poolers, observer, queue_name, caplog, mode, kind
):
    app = App(poolers[mode], name="tests")
    handle_with(app, queue_name, kind)
    ids = WorkQueue(observer).send_batch(queue_name, list(range(40)))

    async with asyncio.timeout(30):
        counts = (await Worker(app).run_until_empty(idle_s=0.2))["tested"]

    assert (counts.done, left(observer, queue_name)) == (40, (0, 40, 0))
    assert effects(observer, queue_name) == [(msg_id, kind) for msg_id in ids]
    assert not [line for line in caplog.messages if "cannot" in line]


@pytest.mark.slow
async def test_behind_a_pooler_of_transactions_a_worker_leaves_sessions_as_they_are(
    worker_url, servers_folder, observer, queue_name
):
    """Other clients use these sessions, so a worker must not reset the settings made there."""
    setting = "set work_mem = ''77MB''"
    with pooling(worker_url, servers_folder, connect_query=setting) as url:
        for kind in KINDS:
            app = App(url, name="tests")
            handle_with(app, queue_name, kind)
            WorkQueue(observer).send_batch(queue_name, list(range(20)))
            async with asyncio.timeout(30):
                await Worker(app).run_until_empty(idle_s=0.1)
        with contextlib.ExitStack() as stack:
            sessions = {}
            for _ in range(5):  # all of the pooler's sessions, each held by a transaction
                other = stack.enter_context(psycopg.connect(url, prepare_threshold=None))
                query = f"select pg_backend_pid(), current_setting('work_mem'), s.* from ({SESSION}) as s"
                pid, *state = rows(other, query)[0]
                sessions[pid] = state

    assert list(sessions.values()) == [["77MB", *FRESH]] * len(sessions)


@pytest.mark.slow
@pytest.mark.parametrize("is_group", [True, False], ids=["group", "consumer"])
async def test_behind_a_pooler_of_transactions_each_event_has_one_effect(
    poolers, observer, queue_name, is_group
):
    app = App(poolers["transaction"], name="tests")
    log_name = f"log_{queue_name}"
    log = EventLog(observer)
    log.create(log_name)
    route = {"group": "readers"} if is_group else {"consumer": "reader"}

    @app.handler(log=log_name, name="tested", **route)
    async def handle(payload, context: Context):
        async with context.transaction() as connection:
            await connection.execute(EFFECT, [log_name, int(payload), "written"])

    worker = Worker(app)
    task = asyncio.create_task(worker.run())
    await until(lambda: worker.status().state == "running", "the worker to run")
    for batch in range(3):
        for number in range(10):
            log.insert_event(log_name, "t", str(batch * 10 + number))
        log.force_tick(log_name)
        log.ticker(log_name)
        await until(
            lambda batch=batch: len(effects(observer, log_name)) >= 10 * (batch + 1), "the effects"
        )
    worker.stop()
    async with asyncio.timeout(30):
        await task

    assert [number for number, _ in effects(observer, log_name)] == list(range(30))
