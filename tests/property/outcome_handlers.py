"""Handlers of all kinds that execute the steps drawn by outcome_steps.py, and their journal.

Each step is written once, as a coroutine. In threads and processes it runs on `ThreadHands`, which
never wait for the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import random
import signal
import subprocess
import threading
import time
from typing import Any

import psycopg
from psycopg.rows import dict_row

from pgsluice.worker import App, Batch, Context, RetryPolicy, SyncContext
from property.outcome_steps import (
    ENDS,
    KINDS,
    MAX_ATTEMPTS,
    TIMEOUT_S,
    GiveUpError,
    Kind,
    Step,
    is_effective,
    step_of,
)

# The database URL, also for handlers in processes.
URL = "PGSLUICE_TEST_OUTCOMES_URL"
# So long that no lease expires on a busy machine.
LEASE_S = 15.0
_HOLD_S = (0.2, 1.2)
_FOREVER_S = 60
TABLES = """
    create table effect (queue_name text, msg_id bigint, ordinal integer, is_transaction boolean);
    create table once_only (n integer primary key);
    create table start (
        queue_name text, msg_id bigint, number integer, ordinal integer, fence integer, attempt integer,
        of_all bigint, began_at timestamptz, ended_at timestamptz,
        primary key (queue_name, msg_id, ordinal)
    );
    create table found (queue_name text, msg_id bigint, what text);
    create table child (pid integer);
    insert into once_only values (1);
"""
STATE = """
    select current_setting('search_path'), current_setting('timezone'), current_setting('statement_timeout'),
        current_user::text, current_setting('transaction_isolation'), current_setting('transaction_read_only'),
        (select array_agg(c) from pg_listening_channels() as c),
        (select array_agg(format('%s/%s', classid, objid)) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()),
        (select count(*) from pg_cursors where name <> ''), to_regclass('left_over')::text
"""
CHANGES = [
    "set search_path = pg_temp, public",
    "set timezone = 'Asia/Tokyo'",
    "set statement_timeout = '30 s'",
    "listen noise",
    "select pg_advisory_lock(4711 + %s)",
    "create temp table left_over (n integer)",
    "declare stays cursor with hold for select 1",
]


class Journal:
    """A separate autocommit connection, for records that a rollback must not undo."""

    def __init__(self) -> None:
        # A cancelled handler may leave a journal call running in its thread.
        self._lock = threading.Lock()
        self._is_closed = False
        self._connected: psycopg.Connection | None = None

    @property
    def _connection(self) -> psycopg.Connection:
        assert not self._is_closed, "the handler has ended"
        if self._connected is None:
            self._connected = psycopg.connect(
                os.environ[URL], autocommit=True, application_name="outcomes journal"
            )
        return self._connected

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        return found if name.startswith("_") else _with_lock(self._lock, found)

    def begin(self, kind: Kind, payloads: list[Any], contexts: list[Any]) -> list[tuple[Step, int]]:
        """Record the start of messages; return their steps and the ordinals of their starts."""
        steps = []
        for payload, context in zip(payloads, contexts, strict=True):
            (ordinal,) = self._connection.execute(
                "select count(*) + 1 from start where queue_name = %s and msg_id = %s",
                [kind.name, context.message_id],
            ).fetchone()
            steps.append((step_of(payload["seed"], kind.name, payload["n"], ordinal), ordinal))
        of_all = next((i for i, (step, _) in enumerate(steps) if step.for_all is not None), None)
        for payload, context, (_, ordinal) in zip(payloads, contexts, steps, strict=True):
            began_s = time.time() - TIMEOUT_S + context.deadline_s - time.monotonic()
            self._connection.execute(
                "insert into start values (%s, %s, %s, %s, %s, %s, %s, to_timestamp(%s), null)",
                [
                    *(kind.name, context.message_id, payload["n"], ordinal),
                    *(context.delivery.fence, context.attempt),
                    None if of_all is None else contexts[of_all].message_id,
                    began_s,
                ],
            )
        return steps

    def end(self, kind: Kind, contexts: list[Any]) -> None:
        """Record the end of a handler."""
        self._connection.execute(
            "update start set ended_at = clock_timestamp()"
            " where queue_name = %s and (msg_id, fence) in (select * from unnest(%s::bigint[], %s::integer[]))",
            [kind.name, [c.message_id for c in contexts], [c.delivery.fence for c in contexts]],
        )
        self._connection.close()
        self._is_closed = True

    def write_effect(self, kind: Kind, context: Any, ordinal: int) -> None:
        """Write an effect outside the transaction."""
        self._connection.execute(
            "insert into effect values (%s, %s, %s, false)",
            [kind.name, context.message_id, ordinal],
        )

    def find(self, kind: Kind, context: Any, what: str) -> None:
        """Record a fault."""
        self._connection.execute(
            "insert into found values (%s, %s, %s)", [kind.name, context.message_id, what]
        )

    def note_child(self, pid: int) -> None:
        """Record a process that must not outlive its handler."""
        self._connection.execute("insert into child values (%s)", [pid])

    def terminate(self, pid: int) -> None:
        """Terminate another session."""
        self._connection.execute("select pg_terminate_backend(%s, 5000)", [pid])

    def fail(self) -> None:
        """Violate a constraint."""
        self._connection.execute("insert into once_only values (1)")

    def lock(self, kind: Kind, context: Any, step: Step) -> None:
        """Lock the rows of messages in another session for a while."""
        is_own = step.trouble == "locks its message"
        holder = psycopg.connect(os.environ[URL], application_name="outcomes holder")
        holder.execute(
            f"select from pgmq.q_{kind.name} where (msg_id = %s) = %s order by (msg_id * %s) %% 101"
            f" limit {1 if is_own else 3} for update {'' if is_own else 'skip locked'}",
            [context.message_id, is_own, step.salt],
        )
        threading.Timer(random.Random(step.salt).uniform(*_HOLD_S), holder.close).start()


def _with_lock(lock: threading.Lock, function: Any) -> Any:
    @functools.wraps(function)
    def locked(*args: Any) -> Any:
        with lock:
            return function(*args)

    return locked


class LoopHands:
    """Actions of an `async def` handler."""

    async def call(self, function: Any, *args: Any) -> Any:
        return await asyncio.to_thread(function, *args)

    def block(self, context: Any) -> Any:
        return context.transaction()

    def savepoint(self, connection: Any) -> Any:
        return connection.transaction()

    async def execute(self, connection: Any, query: str, *parameters: Any) -> Any:
        cursor = await connection.execute(query, parameters or None)
        return await cursor.fetchone() if cursor.description else None

    async def close(self, connection: Any) -> None:
        await connection.close()

    async def once(self, context: Any, key: str) -> bool:
        return await context.once(key)

    async def beat(self, context: Any) -> None:
        await context.heartbeat()

    async def hang(self, _context: Any, _step: Step) -> None:
        await asyncio.sleep(_FOREVER_S)


class ThreadHands:
    """Actions of a `def` handler; none waits for the event loop."""

    async def call(self, function: Any, *args: Any) -> Any:
        return function(*args)

    @contextlib.asynccontextmanager
    async def block(self, context: Any) -> Any:
        with context.transaction() as connection:
            yield connection

    @contextlib.asynccontextmanager
    async def savepoint(self, connection: Any) -> Any:
        with connection.transaction():
            yield

    async def execute(self, connection: Any, query: str, *parameters: Any) -> Any:
        cursor = connection.execute(query, parameters or None)
        return cursor.fetchone() if cursor.description else None

    async def close(self, connection: Any) -> None:
        connection.close()

    async def once(self, context: Any, key: str) -> bool:
        return context.once(key)

    async def beat(self, context: Any) -> None:
        context.heartbeat()

    async def hang(self, context: Any, step: Step) -> None:
        """Hang: in a thread a little longer than the timeout, in a process forever."""
        context.lost.wait(_FOREVER_S)
        await self.call(time.sleep, random.Random(step.salt).uniform(0, 1.5))


Hands = LoopHands | ThreadHands


def _run(coroutine: Any) -> Any:
    """Run a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a step on the hands of a thread waited for the event loop")


async def _handle(hands: Hands, kind: Kind, payload: Any, context: Any) -> Any:
    journal = Journal()
    try:
        ((step, ordinal),) = await hands.call(journal.begin, kind, [payload], [context])
        return await _act(hands, journal, kind, context, step, ordinal)
    finally:
        await hands.call(journal.end, kind, [context])


async def _handle_batch(hands: Hands, kind: Kind, payloads: Any, contexts: Any) -> Any:
    journal = Journal()
    try:
        steps = await hands.call(journal.begin, kind, payloads, contexts)
        of_all = next((step for step, _ in steps if step.for_all is not None), None)
        results = []
        if is_effective(steps[0][0], of_all):
            for context, (step, ordinal) in zip(contexts, steps, strict=True):
                if of_all is not None:
                    step = Step(step.where)
                try:
                    results.append(await _act(hands, journal, kind, context, step, ordinal))
                except Exception as error:
                    results.append(error)
        if of_all is None:
            return results
        await _make_trouble(hands, journal, kind, contexts[0], of_all, None)
        return _end(of_all)
    finally:
        await hands.call(journal.end, kind, contexts)


async def _act(
    hands: Hands, journal: Journal, kind: Kind, context: Any, step: Step, ordinal: int
) -> Any:
    """Execute a step."""
    await hands.call(journal.write_effect, kind, context, ordinal)
    if step.where == "plain":
        await _make_trouble(hands, journal, kind, context, step, None)
        return _end(step)
    async with hands.block(context) as connection:
        await _look_at_session(hands, journal, kind, context, connection)
        if not await hands.once(context, f"{kind.name} {context.message_id}"):
            await hands.call(journal.find, kind, context, "once() tells of an attempt that failed")
        await hands.execute(
            connection,
            "insert into public.effect values (%s, %s, %s, true)",
            *(kind.name, context.message_id, ordinal),
        )
        if not step.is_late and step.trouble != "uses a second block":
            await _make_trouble(hands, journal, kind, context, step, connection)
        if step.where == "within":
            return _end(step)
    if step.is_late:
        await _make_trouble(hands, journal, kind, context, step, connection)
    if step.trouble == "uses a second block":
        async with hands.block(context):
            pass
    return _end(step)


def _end(step: Step) -> Any:
    end = ENDS[step.end].make()
    if step.is_raised:
        raise end
    return end


async def _look_at_session(
    hands: Hands, journal: Journal, kind: Kind, context: Any, connection: Any
) -> None:
    """Compare the session with a new one."""
    found = [connection.row_factory is dict_row, connection.prepare_threshold == 0]
    found += [bool(connection._notice_handlers), bool(connection._notify_handlers)]
    if any(found):
        await hands.call(journal.find, kind, context, f"attributes of another handler: {found}")
        connection.row_factory = psycopg.rows.tuple_row
    state = await hands.execute(connection, STATE)
    if state != await hands.call(_fresh_state):
        await hands.call(journal.find, kind, context, f"the session of another handler: {state}")


_fresh: list[Any] = []


def _fresh_state() -> Any:
    if not _fresh:
        with psycopg.connect(os.environ[URL]) as connection:
            _fresh.append(connection.execute(STATE).fetchone())
    return _fresh[0]


async def _make_trouble(
    hands: Hands, journal: Journal, kind: Kind, context: Any, step: Step, connection: Any
) -> None:
    """Execute the trouble of a step, before the handler ends."""
    match step.trouble:
        case "beats":
            await hands.beat(context)
        case "forks":
            await hands.call(_fork)
        case "starts a program":
            await hands.call(subprocess.run, ["sleep", "0.05"])
        case "swallows an error elsewhere":
            with contextlib.suppress(psycopg.Error):
                await hands.call(journal.fail)
        case "locks its message" | "locks other messages":
            await hands.call(journal.lock, kind, context, step)
        case "changes its session":
            await _change_session(hands, connection, step)
        case "swallows an error in a savepoint":
            with contextlib.suppress(psycopg.Error):
                async with hands.savepoint(connection):
                    await hands.execute(connection, "insert into public.once_only values (1)")
        case "swallows an error":
            with contextlib.suppress(psycopg.Error):
                await hands.execute(connection, "insert into public.once_only values (1)")
        case "terminates its session":
            await hands.execute(connection, "select pg_terminate_backend(pg_backend_pid())")
        case "swallows the loss of its session":
            await hands.call(journal.terminate, connection.info.backend_pid)
            with contextlib.suppress(psycopg.Error):
                await hands.execute(connection, "select 1")
        case "closes its connection":
            await hands.close(connection)
        case "rolls back":
            await hands.execute(connection, "rollback")
        case "rolls back and goes on":
            await hands.execute(connection, "rollback")
            await hands.execute(connection, "select 1")
        case "asks for a transaction":
            async with hands.block(context):
                pass
        case "hangs":
            if kind.execution == "process":
                child = await hands.call(subprocess.Popen, ["sleep", "600"])
                await hands.call(journal.note_child, child.pid)
            await hands.hang(context, step)
        case "hangs in the server":
            await hands.execute(connection, f"select pg_sleep({_FOREVER_S})")
        case "hangs in the server and swallows that":
            with contextlib.suppress(psycopg.Error):
                await hands.execute(connection, f"select pg_sleep({_FOREVER_S})")
        case "shrugs off its timeout":
            with contextlib.suppress(asyncio.CancelledError):
                await hands.hang(context, step)
        case "exits":
            os._exit(3)
        case "is killed":
            os.kill(os.getpid(), signal.SIGKILL)


async def _change_session(hands: Hands, connection: Any, step: Step) -> None:
    chance = random.Random(step.salt)
    for change in chance.sample(CHANGES, 3):
        await hands.execute(connection, change.replace("%s", str(step.salt)))
    if chance.random() < 0.5:
        connection.row_factory = dict_row
    if chance.random() < 0.5:
        connection.prepare_threshold = 0
    if chance.random() < 0.5:
        connection.add_notice_handler(print)


def _fork() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


app = App(name="outcomes")


def _options(name: str) -> dict[str, Any]:
    kind = KINDS[name]
    return {
        "name": name,
        "timeout_s": TIMEOUT_S,
        "lease_s": LEASE_S,
        "retry": RetryPolicy(
            max_attempts=MAX_ATTEMPTS, backoff_base_s=0.05, backoff_max_s=0.2, backoff_jitter=False
        ),
        "give_up_on": (GiveUpError,),
        "mode": "transaction" if kind.is_transaction else "lease",
        "execution": kind.execution,
        "concurrency": 2 if kind.is_batch or kind.execution == "process" else 4,
        "batch": Batch(4, 0.1) if kind.is_batch else None,
    }


@app.handler("loop", **_options("loop"))
async def loop(payload: Any, context: Context) -> Any:
    return await _handle(LoopHands(), KINDS["loop"], payload, context)


@app.handler("loop_transaction", **_options("loop_transaction"))
async def loop_transaction(payload: Any, context: Context) -> Any:
    return await _handle(LoopHands(), KINDS["loop_transaction"], payload, context)


@app.handler("thread", **_options("thread"))
def thread(payload: Any, context: SyncContext) -> Any:
    return _run(_handle(ThreadHands(), KINDS["thread"], payload, context))


@app.handler("thread_transaction", **_options("thread_transaction"))
def thread_transaction(payload: Any, context: SyncContext) -> Any:
    return _run(_handle(ThreadHands(), KINDS["thread_transaction"], payload, context))


@app.handler("process", **_options("process"))
def process(payload: Any, context: SyncContext) -> Any:
    return _run(_handle(ThreadHands(), KINDS["process"], payload, context))


@app.handler("loop_batch", **_options("loop_batch"))
async def loop_batch(payloads: list[Any], contexts: list[Context]) -> Any:
    return await _handle_batch(LoopHands(), KINDS["loop_batch"], payloads, contexts)


@app.handler("thread_batch", **_options("thread_batch"))
def thread_batch(payloads: list[Any], contexts: list[SyncContext]) -> Any:
    return _run(_handle_batch(ThreadHands(), KINDS["thread_batch"], payloads, contexts))


@app.handler("process_batch", **_options("process_batch"))
def process_batch(payloads: list[Any], contexts: list[SyncContext]) -> Any:
    return _run(_handle_batch(ThreadHands(), KINDS["process_batch"], payloads, contexts))
