"""Keeps N worker processes running: restarts them when they die, and forwards shutdown requests.

A process receives its settings as the first line on its standard input, then one line per shutdown level. End of file
means that the supervisor has exited. The process sends its status through another pipe.
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
# Uptime after which a process is restarted without delay.
_GOOD_S = 60.0
_CANNOT_START_S = 1.0
# Time between the signal that dumps the traceback of a hung process and the kill.
_DUMP_S = 1.0
_LINE_BYTES = 1 << 20


class Supervisor:
    """Keep N worker processes running."""

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
        """Prepare a supervisor.

        Args:
            command: Command of each process.
            settings: Settings of each process; not passed as arguments, which other users could read.
            processes: Number of processes, 1 or more.
            stall_s: Seconds without a status, after the first, before a process is killed; 0: never.
            ends_itself: True if a process that exits without an error has finished its work.
            shutdown: Requests the shutdown.
            health: Receives the status of the processes.
            kill_s: Seconds between a hard stop and the kill.
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
        self._worked = asyncio.Event()  # set when any process has been running

    async def run(self) -> int:
        """Run until all processes have stopped; return the highest exit code."""
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
        """Keep one process running."""
        failures = 0
        while not self._shutdown.level:
            began_s = time.monotonic()
            child = await _Child.start(
                self._command, self._settings, number, self._health, self._worked
            )
            code = await self._watch(child)
            self._health.record(number, None)
            if self._shutdown.level or (self._ends_itself and code in (EXIT_DONE, EXIT_LEFT)):
                self._codes[number] = EXIT_LEFT if code < 0 or code == EXIT_REPLACE else code
                return
            cannot_start = code in (_USAGE, EXIT_ERROR) and not child.has_worked
            if cannot_start and (self._ends_itself or not self._worked.is_set()):
                # It has logged the reason. Neither a restart nor the other processes would succeed.
                self._codes[number] = code
                self._shutdown.request(Level.FINISH, f"process {number} cannot start")
                return
            self._health.record(number, {"state": "restarting", "reason": describe(code)})
            ran_s = time.monotonic() - began_s
            failures = 0 if ran_s > _GOOD_S else failures + 1
            delay_s = next_delay_s(failures)
            if cannot_start:
                # Possibly after an upgrade of the program, while older processes continue.
                delay_s = max(_CANNOT_START_S, delay_s)
                _log.error(
                    'process cannot start process=%d reason="%s" retry_in_s=%.1f hint="other processes continue"',
                    number, describe(code), delay_s,
                )  # fmt: skip
            else:
                _log.warning(
                    'process exited process=%d reason="%s" ran_s=%.1f restart_in_s=%.1f',
                    number, describe(code), ran_s, delay_s,
                )  # fmt: skip
            await self._pause(jittered(delay_s))
        self._codes.setdefault(number, EXIT_DONE)

    async def _watch(self, child: _Child) -> int:
        """Wait for a process to exit; forward shutdown requests, and kill it if it hangs."""
        sent = Level.NOT_AT_ALL
        ending = asyncio.create_task(child.wait())
        killed_at_s: float | None = None
        while not ending.done():
            if self._shutdown.level > sent:
                sent = self._shutdown.level
                child.forward(sent)
            now_s = time.monotonic()
            if sent is Level.AT_ONCE and killed_at_s is None:
                killed_at_s = now_s + self._kill_s
            if killed_at_s is None and 0 < self._stall_s < child.silence_s(now_s):
                _log.error(
                    'process hung process=%d seconds=%.0f hint="killing it"',
                    child.number,
                    self._stall_s,
                )
                child.send(signal.SIGABRT)  # dumps tracebacks by faulthandler
                killed_at_s = now_s + _DUMP_S
            if killed_at_s is not None and now_s >= killed_at_s:
                child.send(signal.SIGKILL)
            await asyncio.wait([ending], timeout=_BEAT_S if sent is Level.NOT_AT_ALL else 0.1)
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
        self._reported_at_s: float | None = None

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        settings: dict[str, Any],
        number: int,
        health: Health,
        worked: asyncio.Event,
    ) -> _Child:
        """Start a process; `worked` is set when it is running."""
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
        """Wait for its exit, and for its last status."""
        code = await self._process.wait()
        # A process that it started may still hold the pipe.
        await asyncio.wait([self._listening], timeout=_BEAT_S)
        self._listening.cancel()
        return code

    def silence_s(self, now_s: float) -> float:
        """Return the seconds since its last status; 0 before the first."""
        return 0.0 if self._reported_at_s is None else now_s - self._reported_at_s

    def forward(self, level: Level) -> None:
        """Forward a shutdown level."""
        self._write(str(int(level)))

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if the process still exists."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _write(self, line: str) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(OSError, RuntimeError):  # it has exited
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
                    self._reported_at_s = time.monotonic()
                    with contextlib.suppress(
                        ValueError
                    ):  # a line cut off because the pipe was full
                        status = json.loads(line)
                        if status.get("state") == "running":
                            self.has_worked = True
                            self._worked.set()
                        self._health.record(self.number, status)
            finally:
                transport.close()


def describe(code: int) -> str:
    """Describe an exit code."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    if code == EXIT_REPLACE:
        return "replaced because its handlers hang"
    return f"exited with code {code}"


class SupervisorPipe:
    """Child's end of the pipes to its supervisor."""

    def __init__(self) -> None:
        """Read the settings from standard input, which is then redirected to /dev/null."""
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
        """Follow shutdown requests of the supervisor, including its exit."""

        def run() -> None:
            while line := self._line():
                shutdown.request(Level(int(line)), "requested by the supervisor")
            shutdown.request(Level.FINISH, "the supervisor exited")

        threading.Thread(target=run, name="pgsluice supervisor pipe", daemon=True).start()

    def report(self, status: dict[str, Any]) -> None:
        """Send the status; ignore errors if no supervisor reads it."""
        with contextlib.suppress(OSError):
            os.write(self._writing, json.dumps(status, default=str).encode() + b"\n")

    def _line(self) -> bytes:
        """Return the next line, empty at the end."""
        while b"\n" not in self._buffer:
            data = os.read(self._reading, 65536)
            if not data:
                return b""
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line
