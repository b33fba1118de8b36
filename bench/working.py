"""Run the workers of several systems in separate processes, and collect their measurements."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, Self

import psycopg

from pgsluice.errors import SluiceError

Handled = Callable[[str], None]
Send = Callable[[str], Awaitable[None]]


class Working(Protocol):
    """System whose worker calls an async function for each message; payloads are text."""

    name: str
    uvloop: bool

    def version(self) -> str:
        """Return the package version.

        Raises:
            MissingExtraError: It is not installed.
        """

    def install(self, connection: psycopg.Connection[Any]) -> None:
        """Create its tables and a queue in an empty database."""

    def beside(self, url: str) -> AbstractContextManager[object]:
        """Run the additional processes that its documentation recommends."""

    async def fill(self, url: str, payload: str, messages: int) -> None:
        """Send many messages as fast as possible."""

    def sender(self, url: str) -> AbstractAsyncContextManager[Send]:
        """Return a function that sends one message in its own transaction."""

    def worker(
        self, url: str, concurrency: int, handled: Handled
    ) -> AbstractAsyncContextManager[Callable[[asyncio.Event], Awaitable[None]]]:
        """Create a worker; the returned function runs it until the event is set and its messages are acknowledged."""


@dataclass(frozen=True)
class Cost:
    """Cumulative counters of the server."""

    commits: int
    wal_bytes: int

    @classmethod
    def of(cls, connection: psycopg.Connection[Any]) -> Self:
        """Read the counters; other sessions must have ended, which flushes their statistics."""
        ((commits, wal_bytes),) = connection.execute(
            "select xact_commit, pg_current_wal_lsn() - '0/0' from pg_stat_database where datname = current_database()"
        ).fetchall()
        return cls(int(commits), int(wal_bytes))


class Child:
    """Child process for one system; see `worker_child.py`."""

    def __init__(self, task: str, system: str, url: str, **numbers: float) -> None:
        """Start it, and wait until it is ready."""
        self._what = f"{task} of {system}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.worker_child", task, system, url, json.dumps(numbers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._expect("ready")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            stream.close()

    def go(self) -> None:
        """Start the task."""
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """Wait for it to exit, and return its measurement."""
        line = self._process.stdout.readline()
        if self._process.wait() != 0 or not line:
            raise SluiceError(f"the process for {self._what} failed; see its output above")
        return json.loads(line)

    def _expect(self, word: str) -> None:
        if self._process.stdout.readline().strip() != word:
            raise SluiceError(f"the process for {self._what} did not start; see its output above")


async def until(done: asyncio.Event, *running: asyncio.Task[Any]) -> None:
    """Wait for an event; raise the error of a task that ends before."""
    waiting = asyncio.create_task(done.wait())
    await asyncio.wait([waiting, *running], return_when=asyncio.FIRST_COMPLETED)
    for task in running:
        if task.done() and not done.is_set():
            task.result()
            raise RuntimeError("a worker ended before its messages were handled")
    await waiting


async def steps(messages: int, per_s: float) -> AsyncIterator[int]:
    """Yield numbers at a fixed rate."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    for number in range(messages):
        yield number
        await asyncio.sleep(max(0.0, begin + (number + 1) / per_s - loop.time()))
