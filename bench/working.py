"""Workers of several systems: each in a process of its own, told when to begin, and asked what it measured."""

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
    """A system whose worker runs an async function for each message; the payload is a text."""

    name: str
    uvloop: bool

    def version(self) -> str:
        """The version of the package.

        Raises:
            MissingExtraError: It is not installed.
        """

    def install(self, connection: psycopg.Connection[Any]) -> None:
        """Make its tables in an empty database, and a queue."""

    def beside(self, url: str) -> AbstractContextManager[object]:
        """What its documentation wants to run beside the workers, in processes of its own."""

    async def fill(self, url: str, payload: str, messages: int) -> None:
        """Send many, as fast as it can."""

    def sender(self, url: str) -> AbstractAsyncContextManager[Send]:
        """What sends one message, in a transaction of its own."""

    def worker(
        self, url: str, concurrency: int, handled: Handled
    ) -> AbstractAsyncContextManager[Callable[[asyncio.Event], Awaitable[None]]]:
        """A worker that is connected; it works until the event is set, and what it has handled is acknowledged then."""


@dataclass(frozen=True)
class Cost:
    """What the server has done so far."""

    commits: int
    wal_bytes: int

    @classmethod
    def of(cls, connection: psycopg.Connection[Any]) -> Self:
        """Read it, when all other sessions have said what they did: they do when they end."""
        ((commits, wal_bytes),) = connection.execute(
            "select xact_commit, pg_current_wal_lsn() - '0/0' from pg_stat_database where datname = current_database()"
        ).fetchall()
        return cls(int(commits), int(wal_bytes))


class Child:
    """A process that works for one system: see `worker_child.py`."""

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
        """Let it begin."""
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """Wait for its end, and return what it measured."""
        line = self._process.stdout.readline()
        if self._process.wait() != 0 or not line:
            raise SluiceError(f"the process for {self._what} failed; its last words are above")
        return json.loads(line)

    def _expect(self, word: str) -> None:
        if self._process.stdout.readline().strip() != word:
            raise SluiceError(f"the process for {self._what} did not begin; its words are above")


async def until(done: asyncio.Event, *running: asyncio.Task[Any]) -> None:
    """Wait for an event, and raise what ends a task before."""
    waiting = asyncio.create_task(done.wait())
    await asyncio.wait([waiting, *running], return_when=asyncio.FIRST_COMPLETED)
    for task in running:
        if task.done() and not done.is_set():
            task.result()
            raise RuntimeError("a worker ended before its messages were handled")
    await waiting


async def steps(messages: int, per_s: float) -> AsyncIterator[int]:
    """Numbers at a steady pace."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    for number in range(messages):
        yield number
        await asyncio.sleep(max(0.0, begin + (number + 1) / per_s - loop.time()))
