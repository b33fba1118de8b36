"""App of the workers in these tests; handlers write each start and end to $FAULTS_HISTORY."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time
from typing import Any, TypedDict

from pgsluice.worker import App, Context, Retry, RetryPolicy, SyncContext
from support.history import append_line

LEASE_S = 2.0
ATTEMPTS = 3
TIMEOUT_S = 1.0

app = App(name="faults")


class Work(TypedDict, total=False):
    """Payload: number, action and duration."""

    n: int
    do: str
    seconds: float


def note(word: str, work: Work, context: Any) -> None:
    """Append a line to the history."""
    line = {
        "word": word,
        "n": work["n"],
        "attempt": context.attempt,
        "message_id": context.message_id,
        "pid": os.getpid(),
        "at": time.monotonic(),
    }
    descriptor = os.open(os.environ["FAULTS_HISTORY"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    try:
        append_line(descriptor, line)
    finally:
        os.close(descriptor)


def misbehave(work: Work) -> None:
    """Fail, exit, hang or crash as the payload requests."""
    match work.get("do"):
        case "raise":
            raise RuntimeError(f"message {work['n']} cannot be handled")
        case "exit":
            os._exit(9)
        case "segfault":
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            time.sleep(3600)
        case "eat":
            hoard = []
            while True:
                hoard.append(bytearray(64 << 20))
        case "again":
            raise Retry(0)
        case "grip":
            hold_interpreter()
        case "wait":
            while not is_gripped():
                time.sleep(0.01)
            time.sleep(0.3)


def hold_interpreter() -> None:
    """Hold the interpreter's lock in C code for two leases; only the first caller does so."""
    try:
        os.close(os.open(gripped(), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    ctypes.PyDLL(None).sleep(int(2 * LEASE_S))


def gripped() -> str:
    """Return the path of the file that marks that a process holds or held its interpreter."""
    return f"{os.environ['FAULTS_HISTORY']}-gripped"


def is_gripped() -> bool:
    """True if a process holds or held its interpreter."""
    return os.path.exists(gripped())  # noqa: PTH110 - of handlers in the loop too


@app.handler(
    "threads",
    retry=RetryPolicy(max_attempts=ATTEMPTS, backoff_base_s=0),
    lease_s=LEASE_S,
    concurrency=4,
)
def in_a_thread(work: Work, context: SyncContext) -> None:
    """Work, and write the effect in the transaction that acknowledges."""
    note("start", work, context)
    time.sleep(work.get("seconds", 0))
    misbehave(work)
    with context.transaction() as connection:
        connection.execute(
            "insert into effect (n, attempt) values (%s, %s)", (work["n"], context.attempt)
        )
    note("done", work, context)


@app.handler(
    "loop",
    retry=RetryPolicy(max_attempts=ATTEMPTS, backoff_base_s=0),
    lease_s=LEASE_S,
    concurrency=4,
)
async def in_the_loop(work: Work, context: Context) -> None:
    """As `in_a_thread`, in the event loop."""
    note("start", work, context)
    while work.get("do") == "wait" and not is_gripped():  # noqa: ASYNC110 - of other processes
        await asyncio.sleep(0.01)
    async with context.transaction() as connection:
        await connection.execute("select pg_sleep(%s)", (work.get("seconds", 0),))
        await connection.execute(
            "insert into effect (n, attempt) values (%s, %s)", (work["n"], context.attempt)
        )
    note("done", work, context)


@app.handler(
    "processes",
    retry=RetryPolicy(max_attempts=ATTEMPTS, backoff_base_s=0),
    lease_s=LEASE_S,
    timeout_s=TIMEOUT_S,
    execution="process",
    concurrency=2,
)
def in_a_process(work: Work, context: SyncContext) -> None:
    """Work without a connection; a crash ends only the handler's process."""
    note("start", work, context)
    time.sleep(work.get("seconds", 0))
    misbehave(work)
    note("done", work, context)


@app.handler(
    "hungry",
    retry=RetryPolicy(max_attempts=ATTEMPTS, backoff_base_s=0),
    execution="process",
    concurrency=2,
)
def with_little_memory(work: Work, context: SyncContext) -> None:
    """As `in_a_process`, without a timeout, so that it can use up memory."""
    note("start", work, context)
    misbehave(work)
    note("done", work, context)


@app.handler("plain", lease_s=LEASE_S, concurrency=4)
def without_a_transaction(work: Work, context: SyncContext) -> None:
    """Work without writing anything."""
    note("start", work, context)
    time.sleep(work.get("seconds", 0))
    misbehave(work)
    note("done", work, context)


@app.handler(
    "held",
    mode="transaction",
    retry=RetryPolicy(max_attempts=ATTEMPTS, backoff_base_s=0),
    lease_s=LEASE_S,
)
def in_its_transaction(work: Work, context: SyncContext) -> None:
    """Work in the transaction that locks the message's row and acknowledges it."""
    note("start", work, context)
    with context.transaction() as connection:
        connection.execute(
            "insert into effect (n, attempt) values (%s, %s)", (work["n"], context.attempt)
        )
        time.sleep(work.get("seconds", 0))
        misbehave(work)
    note("done", work, context)


@app.handler(log="events", group="group", lease_s=LEASE_S, concurrency=4)
def in_a_group(work: Work, context: SyncContext) -> None:
    """Work on an event, and write the effect in the transaction that acknowledges."""
    note("start", work, context)
    time.sleep(work.get("seconds", 0))
    misbehave(work)
    with context.transaction() as connection:
        connection.execute(
            "insert into effect (n, attempt) values (%s, %s)", (work["n"], context.attempt)
        )
    note("done", work, context)
