"""Pool of handler processes, one job at a time each; a process that dies is replaced.

Unlike `ProcessPoolExecutor`, the death of one process does not fail the jobs of the others, and a hanging job can be
killed.
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
# multiprocessing keeps global lists of processes that are not thread-safe.
_starting = threading.Lock()


class RemoteError(Exception):
    """A call failed in a handler process.

    Attributes:
        settlement: The settlement of its message.
    """

    def __init__(self, settlement: Settlement) -> None:
        failure = settlement.failure
        super().__init__(
            f"{failure.error_type}: {failure.message}" if failure else repr(settlement.outcome)
        )
        self.settlement = settlement


class ProcessPool:
    """One process per concurrent job; idle processes are reused."""

    def __init__(self, *, max_memory_mb: int | None = None) -> None:
        self._threads = Threads()
        self._max_memory_mb = max_memory_mb
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()

    async def make_ready(self, spec: HandlerSpec) -> None:
        """Start a process if none is idle, and verify that it can import the handler; the next call uses it.

        Raises:
            ConfigurationError: It cannot, or does not start.
        """
        while self._idle and not self._idle[-1].is_alive():
            self._all.discard(self._idle.pop())
        if self._idle:
            return
        try:
            async with asyncio.timeout(_START_S):
                reply = await self._call(Job.of(spec, [], []))
        except TimeoutError:
            reply = f"it did not start within {_START_S:g} s"
        if reply:
            detail = reply.settlements[0].failure if isinstance(reply, Reply) else reply
            raise ConfigurationError(
                f"handler {spec.name!r} cannot run in its own process ({detail}); it must be importable, and a "
                "script must start its worker under `if __name__ == '__main__'`"
            )

    async def run(self, job: Job) -> Any:
        """Call a handler; return its result, for a batch one settlement per message.

        Raises:
            RemoteError: The call failed, or the process died.
        """
        reply = await self._call(job)
        assert isinstance(reply, Reply)  # noqa: S101 - jobs with deliveries get a Reply
        if reply.is_failure:
            raise RemoteError(reply.settlements[0])
        return list(reply.settlements) if job.is_batch else _reply(reply.settlements[0])

    async def close(self) -> None:
        """Stop all processes."""
        children = list(self._all)
        self._idle.clear()
        self._all.clear()
        if children:
            await self._threads.run(_end_all, children)
        self._threads.close()

    async def _call(self, job: Job) -> Reply | str:
        if self._idle:
            child = self._idle.pop()
        else:
            child = _Child(self._max_memory_mb)
            self._all.add(child)
        try:
            reply, error = await self._threads.run(child.call, job)
        except asyncio.CancelledError:
            child.kill()  # which ends its thread's wait
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


def _reply(settlement: Settlement) -> Any:
    if settlement.failure is not None and settlement.failure.error_type not in ("Retry", "Reject"):
        raise RemoteError(settlement)
    return settlement.outcome


class _Child:
    """One process; its blocking methods are called in threads."""

    def __init__(self, max_memory_mb: int | None) -> None:
        self._max_memory_mb = max_memory_mb
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._is_killed = False
        self._is_over = False  # its pid may be reused
        self.is_worn = False

    def call(self, job: Job) -> Reply | str:
        """Send a job and wait for its reply; the death of the process becomes a failure reply."""
        try:
            sent = pickle.dumps(job)
        except Exception as error:  # noqa: BLE001 - a payload replaced by middleware
            return Reply((_unsendable(error),) * max(1, len(job.deliveries)), is_failure=True)
        try:
            if self._process is None:
                self._start()
            assert self._pipe is not None  # noqa: S101 - _start() sets it
            self._pipe.send_bytes(sent)
            self._await_reply()
            reply: Reply | str = pickle.loads(self._pipe.recv_bytes())  # noqa: S301 - from our own process
        except (EOFError, OSError):
            self.is_worn = True
            self._end_group()
            settlement = Settlement(Retry(), Failure("process died", self._exit_reason()))
            return Reply((settlement,) * max(1, len(job.deliveries)), is_failure=True)
        if isinstance(reply, Reply) and any(map(_is_out_of_memory, reply.settlements)):
            self.is_worn = True  # its state may be inconsistent after a MemoryError
        return reply

    def is_alive(self) -> bool:
        """True if it has not died while idle."""
        return self._process is not None and self._process.is_alive()

    def kill(self) -> None:
        """Kill the process without waiting for it."""
        with _starting:
            self._is_killed = True
            if self._process is not None and not self._is_over:
                self._end_group()
                self._process.kill()

    def close(self) -> None:
        """Close the pipe, which ends the process after its job."""
        if self._pipe is not None:
            with contextlib.suppress(OSError):
                self._pipe.close()

    def join(self) -> None:
        """Wait for the process to end; kill it after a timeout."""
        if self._process is not None:
            self._process.join(_END_S)
            if self._process.is_alive():
                self._end_group()
                self._process.kill()
                self._process.join()

    def _await_reply(self) -> None:
        """Wait for the reply or the death of the process, whose forks may hold its end of the pipe.

        Raises:
            EOFError: It died.
        """
        assert self._pipe is not None  # noqa: S101 - set by the only caller
        while not self._pipe.poll(_LOOK_S):
            if self._has_ended() and not self._pipe.poll():
                raise EOFError

    def _has_ended(self) -> bool:
        """True if the process has ended; does not reap it, so that its pid is not reused."""
        if self._process is None or self._process.pid is None:
            return False
        try:
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self._process.pid, flags) is not None
        except ChildProcessError:
            return True

    def _end_group(self) -> None:
        """Kill the process group with the processes that its jobs started, if it exists already."""
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
            theirs.close()  # else EOF would never arrive
            self._pipe = ours

    def _exit_reason(self) -> str:
        if self._process is None:
            return "it was killed before it started"
        self._process.join(_END_S)
        code = self._process.exitcode
        self._is_over = code is not None
        if code is None:
            self._process.kill()
            return "it closed its pipe"
        if code >= 0:
            return f"exit code {code}"
        name = signal.Signals(-code).name
        return f"signal {name}" + (", possibly by the OOM killer" if name == "SIGKILL" else "")


def _unsendable(error: Exception) -> Settlement:
    return failed(
        HandlerError(
            "the payload cannot be pickled and sent to the handler's process "
            f"({type(error).__name__}: {error}); middleware must return picklable payloads"
        )
    )


def _is_out_of_memory(settlement: Settlement) -> bool:
    return settlement.failure is not None and settlement.failure.error_type == "MemoryError"


def _end_all(children: list[_Child]) -> None:
    for child in children:
        child.close()
    for child in children:
        child.join()
