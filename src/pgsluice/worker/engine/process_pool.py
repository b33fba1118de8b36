"""Processes for handlers that compute, or may crash: one job at a time each, and a new one for one that dies.

Not an executor of the standard library: there the death of one process fails the jobs of all the others, and a job that
hangs cannot be ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from pgsluice.errors import ConfigurationError, HandlerError
from pgsluice.outcome import Retry
from pgsluice.worker.engine.delivery import Failure
from pgsluice.worker.engine.process_child import Job, Reply, serve
from pgsluice.worker.engine.settlement import Settlement, failed
from pgsluice.worker.engine.threads import Threads
from pgsluice.worker.handlers.handler import HandlerSpec

__all__ = ["Job", "ProcessPool", "RemoteError"]

_END_S = 2.0
_START_S = 60.0
_LOOK_S = 1.0
# The module of the standard library keeps lists of processes that are not for several threads.
_starting = threading.Lock()


class RemoteError(Exception):
    """A call failed in another process.

    Attributes:
        settlement: What that means for the message.
    """

    def __init__(self, settlement: Settlement) -> None:
        failure = settlement.failure
        super().__init__(
            f"{failure.error_type}: {failure.message}" if failure else repr(settlement.outcome)
        )
        self.settlement = settlement


class ProcessPool:
    """As many processes as run jobs at once; those that are idle are used again."""

    def __init__(self, *, max_memory_mb: int | None = None) -> None:
        self._threads = Threads()
        self._max_memory_mb = max_memory_mb
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()

    async def make_ready(self, spec: HandlerSpec) -> None:
        """Start a process if none is idle, and look that it finds a handler; the next call finds it there.

        Raises:
            ConfigurationError: It does not, or cannot start.
        """
        while self._idle and not self._idle[-1].is_alive():
            self._all.discard(self._idle.pop())
        if self._idle:
            return
        try:
            async with asyncio.timeout(_START_S):
                reply = await self._ask(Job.of(spec, [], []))
        except TimeoutError:
            reply = f"it did not start within {_START_S:g} s"
        if reply:
            detail = reply.settlements[0].failure if isinstance(reply, Reply) else reply
            raise ConfigurationError(
                f"handler {spec.name!r} cannot run in a process of its own ({detail}); it must be importable, and a "
                "script must start its worker under `if __name__ == '__main__'`"
            )

    async def run(self, job: Job) -> Any:
        """Call a handler; what it answered, for a batch a settlement for each.

        Raises:
            RemoteError: The call failed, or the process died.
        """
        reply = await self._ask(job)
        assert isinstance(reply, Reply)  # noqa: S101 - a job with deliveries has no other
        if reply.is_failure:
            raise RemoteError(reply.settlements[0])
        return list(reply.settlements) if job.is_batch else _answer(reply.settlements[0])

    async def close(self) -> None:
        """End all processes."""
        children = list(self._all)
        self._idle.clear()
        self._all.clear()
        if children:
            await self._threads.run(_end_all, children)
        self._threads.close()

    async def _ask(self, job: Job) -> Reply | str:
        if self._idle:
            child = self._idle.pop()
        else:
            child = _Child(self._max_memory_mb)
            self._all.add(child)
        try:
            reply, error = await self._threads.run(child.ask, job)
        except asyncio.CancelledError:
            child.kill()  # its thread hears of it
            self._all.discard(child)
            raise
        if error is not None or child.is_worn:
            child.kill()
            self._all.discard(child)
        else:
            self._idle.append(child)
        if error is not None:
            raise error
        answer: Reply | str = reply
        return answer


def _answer(settlement: Settlement) -> Any:
    if settlement.failure is not None and settlement.failure.error_type not in ("Retry", "Reject"):
        raise RemoteError(settlement)
    return settlement.outcome


class _Child:
    """One process; what blocks is called in threads."""

    def __init__(self, max_memory_mb: int | None) -> None:
        self._max_memory_mb = max_memory_mb
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._is_killed = False
        self._is_over = False  # its number may be another process's
        self.is_worn = False

    def ask(self, job: Job) -> Reply | str:
        """Send a job and wait for its reply; the death of the process is one too."""
        try:
            sent = pickle.dumps(job)
        except Exception as error:  # noqa: BLE001 - of a payload that middleware has replaced
            return Reply((_unsendable(error),) * max(1, len(job.deliveries)), is_failure=True)
        try:
            if self._process is None:
                self._start()
            assert self._pipe is not None  # noqa: S101 - there since the start
            self._pipe.send_bytes(sent)
            self._await_reply()
            reply: Reply | str = pickle.loads(self._pipe.recv_bytes())  # noqa: S301 - of our own process
        except (EOFError, OSError):
            self.is_worn = True
            self._end_group()
            settlement = Settlement(Retry(), Failure("process died", self._how_it_died()))
            return Reply((settlement,) * max(1, len(job.deliveries)), is_failure=True)
        if isinstance(reply, Reply) and any(map(_is_out_of_memory, reply.settlements)):
            self.is_worn = True  # what it could not get it may have half
        return reply

    def is_alive(self) -> bool:
        """Whether it did not end while it was idle."""
        return self._process is not None and self._process.is_alive()

    def kill(self) -> None:
        """End it at once; does not wait."""
        with _starting:
            self._is_killed = True
            if self._process is not None and not self._is_over:
                self._end_group()
                self._process.kill()

    def close(self) -> None:
        """Let it end, or end it."""
        if self._pipe is not None:
            with contextlib.suppress(OSError):
                self._pipe.close()

    def join(self) -> None:
        """Wait until it ended."""
        if self._process is not None:
            self._process.join(_END_S)
            if self._process.is_alive():
                self._end_group()
                self._process.kill()
                self._process.join()

    def _await_reply(self) -> None:
        """Wait for the reply, or for the death of the process: forks of it may hold its end of the pipe.

        Raises:
            EOFError: It died.
        """
        assert self._pipe is not None  # noqa: S101 - the only caller has just used it
        while not self._pipe.poll(_LOOK_S):
            if self._has_ended() and not self._pipe.poll():
                raise EOFError

    def _has_ended(self) -> bool:
        """True if the process has ended; it is not waited for, so that its number stays its own."""
        if self._process is None or self._process.pid is None:
            return False
        try:
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self._process.pid, flags) is not None
        except ChildProcessError:
            return True

    def _end_group(self) -> None:
        """Kill the process with those that its jobs have started, if it has got as far as to have a group."""
        if self._process is not None and self._process.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        with _starting:
            if self._is_killed:
                raise EOFError
            ours, theirs = context.Pipe()
            self._process = context.Process(
                target=serve,
                args=(theirs, self._max_memory_mb),
                name="pgsluice-handler",
                daemon=False,  # the user's code may start processes too
            )
            self._process.start()
            theirs.close()  # or its end would never be heard of
            self._pipe = ours

    def _how_it_died(self) -> str:
        if self._process is None:
            return "it was ended before it began"
        self._process.join(_END_S)
        code = self._process.exitcode
        self._is_over = code is not None
        if code is None:
            self._process.kill()
            return "it closed its pipe"
        if code >= 0:
            return f"exit code {code}"
        name = signal.Signals(-code).name
        return f"signal {name}" + (", as when memory is short" if name == "SIGKILL" else "")


def _unsendable(error: Exception) -> Settlement:
    return failed(
        HandlerError(
            "the payload cannot be sent to the process of its handler "
            f"({type(error).__name__}: {error}); middleware must pass on what can be pickled"
        )
    )


def _is_out_of_memory(settlement: Settlement) -> bool:
    return settlement.failure is not None and settlement.failure.error_type == "MemoryError"


def _end_all(children: list[_Child]) -> None:
    for child in children:
        child.close()
    for child in children:
        child.join()
