"""Keeps several processes at work: starts them anew when they die, and tells them to end.

A process of them is told by a pipe, its standard input: a line with its settings, then a line for each level of
shutdown. The end of the pipe is the end of the supervisor, however it came. What it says of itself comes by another.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import threading
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from typing import Any

from pgsluice.backoff import jittered, next_delay_s
from pgsluice.worker.loops import call_soon
from pgsluice.worker.process.health import Health
from pgsluice.worker.process.process import EXIT_DONE, EXIT_ERROR, EXIT_LEFT, EXIT_REPLACE
from pgsluice.worker.process.shutdown import Level, Shutdown

_log = logging.getLogger(__name__)
_USAGE = 2
_BEAT_S = 0.5
# A process that has run for so long is started anew without delay.
_GOOD_S = 60.0
_CANNOT_START_S = 1.0
# From the signal that makes a process say where it hangs to the kill.
_DUMP_S = 1.0
_LINE_BYTES = 1 << 20


class Supervisor:
    """Keep so many processes at work."""

    def __init__(
        self,
        command: Sequence[str],
        settings: dict[str, Any],
        *,
        processes: int,
        stall_s: float,
        ends_itself: bool,
        shutdown: Shutdown,
        health: Health,
        kill_s: float = 6.0,
    ) -> None:
        """Prepare it.

        Args:
            command: What each process is started with.
            settings: What each is told first; no argument, as those can be seen by everyone on the machine.
            processes: How many, 1 or more.
            stall_s: How long one may say nothing, once it has begun to, before it is killed; 0: for ever.
            ends_itself: Whether one that ends without an error has done what it was to do.
            shutdown: Tells it to end.
            health: Told how they fare.
            kill_s: How long one may take to end at once, seconds; then it is killed.
        """
        self._command = command
        self._settings = settings
        self._processes = processes
        self._stall_s = stall_s
        self._ends_itself = ends_itself
        self._shutdown = shutdown
        self._health = health
        self._kill_s = kill_s
        self._changed = asyncio.Condition()
        self._codes: dict[int, int] = {}
        self._worked = asyncio.Event()  # set when any process has

    async def run(self) -> int:
        """Run until all processes have ended for good; the highest of their exit codes."""
        loop = asyncio.get_running_loop()

        def notify() -> None:
            call_soon(loop, lambda: loop.create_task(self._notify()))

        self._shutdown.watch(notify)
        beating = asyncio.create_task(self._beat())
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(1, self._processes + 1):
                    tasks.create_task(self._keep(number))
        finally:
            beating.cancel()
        return max(self._codes.values())

    async def _keep(self, number: int) -> None:
        """Keep one at work."""
        failures = 0
        while not self._shutdown.level:
            began_s = time.monotonic()
            child = await _Child.start(
                self._command, self._settings, number, self._health, self._worked
            )
            code = await self._watch(child)
            self._health.tell(number, None)
            if self._shutdown.level or (self._ends_itself and code in (EXIT_DONE, EXIT_LEFT)):
                self._codes[number] = EXIT_LEFT if code < 0 or code == EXIT_REPLACE else code
                return
            cannot_start = code in (_USAGE, EXIT_ERROR) and not child.has_worked
            if cannot_start and (self._ends_itself or not self._worked.is_set()):
                # It has said why. To start it again would not help, nor would the others fare better.
                self._codes[number] = code
                self._shutdown.request(Level.FINISH, f"process {number} cannot start")
                return
            self._health.tell(number, {"state": "restarting", "reason": describe(code)})
            ran_s = time.monotonic() - began_s
            failures = 0 if ran_s > _GOOD_S else failures + 1
            delay_s = next_delay_s(failures)
            if cannot_start:
                # Another release of the program, perhaps, whose processes of before go on.
                delay_s = max(_CANNOT_START_S, delay_s)
                _log.error(
                    "process %d cannot start: it %s; the others go on; another attempt in %.1f s",
                    number, describe(code), delay_s,
                )  # fmt: skip
            else:
                _log.warning(
                    "process %d %s after %.1f s; another one in %.1f s",
                    number, describe(code), ran_s, delay_s,
                )  # fmt: skip
            await self._pause(jittered(delay_s))
        self._codes.setdefault(number, EXIT_DONE)

    async def _watch(self, child: _Child) -> int:
        """Wait for the end of one; tell it what the shutdown wants, and kill it when it hangs."""
        told = Level.NOT_AT_ALL
        ending = asyncio.create_task(child.wait())
        killed_at_s: float | None = None
        while not ending.done():
            if self._shutdown.level > told:
                told = self._shutdown.level
                child.tell(told)
            now_s = time.monotonic()
            if told is Level.AT_ONCE and killed_at_s is None:
                killed_at_s = now_s + self._kill_s
            if killed_at_s is None and 0 < self._stall_s < child.silence_s(now_s):
                _log.error(
                    "process %d has hung for %.0f s: it is killed", child.number, self._stall_s
                )
                child.send(signal.SIGABRT)  # on which it says where
                killed_at_s = now_s + _DUMP_S
            if killed_at_s is not None and now_s >= killed_at_s:
                child.send(signal.SIGKILL)
            await asyncio.wait([ending], timeout=_BEAT_S if told is Level.NOT_AT_ALL else 0.1)
        return ending.result()

    async def _beat(self) -> None:
        while True:
            self._health.beat()
            await asyncio.sleep(_BEAT_S)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: self._shutdown.level > 0)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


class _Child:
    """One process."""

    def __init__(
        self, number: int, process: Process, health: Health, worked: asyncio.Event
    ) -> None:
        self.number = number
        self._worked = worked
        self.has_worked = False
        self._process = process
        self._health = health
        self._heard_at_s: float | None = None

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        settings: dict[str, Any],
        number: int,
        health: Health,
        worked: asyncio.Event,
    ) -> _Child:
        """Start one; `worked` is set when it handles messages."""
        reading, writing = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, pass_fds=(writing,)
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        child = cls(number, process, health, worked)
        child._write(json.dumps(settings | {"number": number, "status_fd": writing}))
        child._listening = asyncio.create_task(child._listen(reading))
        return child

    _listening: asyncio.Task[None]

    async def wait(self) -> int:
        """Wait for its end, and for what it said before."""
        code = await self._process.wait()
        # A process that it has started may still hold the pipe.
        await asyncio.wait([self._listening], timeout=_BEAT_S)
        self._listening.cancel()
        return code

    def silence_s(self, now_s: float) -> float:
        """For how long it has said nothing; 0 before it has begun to."""
        return 0.0 if self._heard_at_s is None else now_s - self._heard_at_s

    def tell(self, level: Level) -> None:
        """Say what is wanted."""
        self._write(str(int(level)))

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it is still there."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _write(self, line: str) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(OSError, RuntimeError):  # it has ended
                self._process.stdin.write(line.encode() + b"\n")

    async def _listen(self, reading: int) -> None:
        reader = asyncio.StreamReader(limit=_LINE_BYTES)
        loop = asyncio.get_running_loop()
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            transport, _ = await loop.connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), pipe
            )
            try:
                while line := await reader.readline():
                    self._heard_at_s = time.monotonic()
                    with contextlib.suppress(ValueError):  # one that did not fit into the pipe
                        status = json.loads(line)
                        if status.get("state") == "running":
                            self.has_worked = True
                            self._worked.set()
                        self._health.tell(self.number, status)
            finally:
                transport.close()


def describe(code: int) -> str:
    """How a process has ended, for people."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
    if code == EXIT_REPLACE:
        return "asked to be replaced, as its handlers hang,"
    return f"ended with exit code {code}"


class Superior:
    """The other end of the pipes: what a process of a supervisor is told, and where it tells."""

    def __init__(self) -> None:
        """Read the settings from standard input, which nobody else reads from then on."""
        self._reading = os.dup(0)
        with open(os.devnull) as null:  # noqa: PTH123 - for its descriptor
            os.dup2(null.fileno(), 0)
        self._buffer = b""
        self.settings: dict[str, Any] = json.loads(self._line())
        self.number: int = self.settings.pop("number")
        self._writing: int = self.settings.pop("status_fd")
        os.set_inheritable(self._writing, False)
        os.set_blocking(self._writing, False)

    def follow(self, shutdown: Shutdown) -> None:
        """Let it tell the process to end, and its own end as well."""

        def run() -> None:
            while line := self._line():
                shutdown.request(Level(int(line)), "told to end")
            shutdown.request(Level.FINISH, "the supervisor has gone")

        threading.Thread(target=run, name="pgsluice superior", daemon=True).start()

    def tell(self, status: dict[str, Any]) -> None:
        """Say how it fares; not when nobody reads."""
        with contextlib.suppress(OSError):
            os.write(self._writing, json.dumps(status, default=str).encode() + b"\n")

    def _line(self) -> bytes:
        """The next line, empty at the end."""
        while b"\n" not in self._buffer:
            data = os.read(self._reading, 65536)
            if not data:
                return b""
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line
