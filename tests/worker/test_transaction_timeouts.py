"""Timeouts of the server that end a handler's transaction: the attempt counts, with the error."""

from __future__ import annotations

import asyncio
import time

import psycopg
import pytest

from pgsluice import WorkQueue
from pgsluice.worker import App, Context, RetryPolicy, SyncContext
from support import rows
from worker.test_worker import EFFECT, drained, effects, left

IDLE = "terminating connection due to idle-in-transaction timeout"
# The setting, the handler's statement, and the stored error.
CASES = [
    ("idle_in_transaction_session_timeout", "execute", IDLE),
    ("idle_in_transaction_session_timeout", "execute again", "the connection is closed"),
    ("idle_in_transaction_session_timeout", "ignore", "the connection "),
    ("idle_in_transaction_session_timeout", "return", IDLE),
    ("transaction_timeout", "work", "terminating connection due to transaction timeout"),
    ("transaction_timeout", "return", "terminating connection due to transaction timeout"),
    ("statement_timeout", "work", "canceling statement due to statement timeout"),
]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["lease", pytest.param("transaction", marks=pytest.mark.long)])
@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "loop"])
@pytest.mark.parametrize(
    ("setting", "does", "error"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES]
)
async def test_a_transaction_that_the_server_ends_for_its_time_counts_as_an_attempt(
    worker_url, observer, queue_name, mode, is_async, setting, does, error
):
    app = App(worker_url, name="tests")
    begin = f"set local {setting} = '100ms'"
    statement = "select pg_sleep(10)" if does == "work" else "select 1"

    async def in_loop(_payload, context: Context):
        async with context.transaction() as connection:
            await connection.execute(EFFECT, [queue_name, context.message_id, "written"])
            await connection.execute(begin)
            if does != "work":
                await asyncio.sleep(0.3)  # longer than the limit
            try:
                if does != "return":
                    await connection.execute(statement)
            except psycopg.Error:
                if does == "execute again":
                    await connection.execute(statement)
                elif does != "ignore":
                    raise

    def in_thread(_payload, context: SyncContext):
        with context.transaction() as connection:
            connection.execute(EFFECT, [queue_name, context.message_id, "written"])
            connection.execute(begin)
            if does != "work":
                time.sleep(0.3)  # longer than the limit
            try:
                if does != "return":
                    connection.execute(statement)
            except psycopg.Error:
                if does == "execute again":
                    connection.execute(statement)
                elif does != "ignore":
                    raise

    app.handler(queue_name, name="tested", mode=mode, retry=RetryPolicy(max_attempts=1))(
        in_loop if is_async else in_thread
    )
    WorkQueue(observer).send(queue_name, 1)

    async with asyncio.timeout(30):
        counts = await drained(app)

    query = "select attempts, error from sluice.dead_letter where queue_name = %s"
    ((attempts, kept),) = rows(observer, query, queue_name)
    assert attempts == 1
    assert error in kept
    assert (counts.dead, counts.released, left(observer, queue_name)) == (1, 0, (0, 0, 1))
    assert effects(observer, queue_name) == []
