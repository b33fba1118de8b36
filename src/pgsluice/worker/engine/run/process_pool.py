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
from pgsluice.worker.engine.delivery import Failure, Settlement
from pgsluice.worker.engine.run.process_child import BEGUN, Job, Reply, serve
from pgsluice.worker.engine.run.threads import NotStartedError, Threads
from pgsluice.worker.engine.settle.settlement import failed
from pgsluice.worker.handlers.handler import HandlerSpec

__all__ = ["Child", "Job", "ProcessPool", "RemoteError"]

_END_S = 2.0
_START_S = 60.0
_LOOK_S = 1.0
# multiprocessing keeps global lists of processes that are not thread-safe.
_starting = threading.Lock()


class RemoteError(Exception):
    """A call failed in a handler process.

    Attributes:
        settlement: The settlement of its message.
        has_begun: False if the process died before it called the handler.
    """

    def __init__(self, settlement: Settlement, *, has_begun: bool = True) -> None:
        failure = settlement.failure
        super().__init__(
            f"{failure.error_type}: {failure.message}" if failure else repr(settlement.outcome)
        )
        self.settlement = settlement
        self.has_begun = has_begun


class ProcessPool:
    """One process per concurrent job; idle processes are reused."""

    def __init__(self, *, max_memory_mb: int | None = None) -> None:
        self._threads = Threads()
        self._max_memory_mb = max_memory_mb
        self._idle: list[Child] = []
        self._all: set[Child] = set()

    async def reserve(self, spec: HandlerSpec) -> Child:
        """Return a running process for one call of a handler; start one if none is idle.

        Pass it to `run`, or to `give_back`.

        Raises:
            NotStartedError: None can be started.
            ConfigurationError: It cannot import the handler, or does not start in time.
        """
        child = self._take_idle()
        key = spec.function.__module__, spec.function.__qualname__
        if key in child.imported:
            return child
        try:
            async with asyncio.timeout(_START_S):
                reply = await self._call(child, Job.of(spec, [], []))
        except TimeoutError:
            reply = f"it did not start within {_START_S:g} s"
        if reply:
            child.is_worn = True
            self.give_back(child)
            detail = reply.settlements[0].failure if isinstance(reply, Reply) else reply
            raise ConfigurationError(
                f"handler {spec.name!r} cannot run in its own process ({detail}); it must be importable, and a "
                "script must start its worker under `if __name__ == '__main__'`"
            )
        child.imported.add(key)
        return child

    def _take_idle(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.is_alive():
                return child
            self._all.discard(child)
        child = Child(self._max_memory_mb)
        self._all.add(child)
        return child

    def give_back(self, child: Child) -> None:
        """Keep a process for the next call, unless it must be replaced."""
        if child.is_worn:
            child.kill()
            self._all.discard(child)
        elif child in self._all:
            self._idle.append(child)

    async def run(self, child: Child, job: Job) -> Any:
        """Call a handler in a reserved process; return its outcome, the settlement if it has a result, for a
        batch one settlement per message.

        Raises:
            RemoteError: The call failed, or the process died.
        """
        try:
            reply = await self._call(child, job)
        finally:
            self.give_back(child)
        assert isinstance(reply, Reply)  # noqa: S101 - jobs with deliveries get a Reply
        if reply.is_failure:
            raise RemoteError(reply.settlements[0], has_begun=child.has_begun)
        return list(reply.settlements) if job.is_batch else _reply(reply.settlements[0])

    async def close(self) -> None:
        """Stop all processes."""
        children = list(self._all)
        self._idle.clear()
        self._all.clear()
        if children:
            await self._threads.run(_end_all, children)
        await self._threads.close()

    async def _call(self, child: Child, job: Job) -> Reply | str:
        try:
            reply, error = await self._threads.run(child.call, job)
        except (asyncio.CancelledError, NotStartedError):
            child.wear_out()  # which ends its thread's wait
            self._all.discard(child)
            raise
        if error is not None:
            child.wear_out()
            self._all.discard(child)
            raise error
        answer: Reply | str = reply
        return answer


def _reply(settlement: Settlement) -> Any:
    if settlement.failure is not None and settlement.failure.error_type not in ("Retry", "Reject"):
        raise RemoteError(settlement)
    return settlement.outcome if settlement.returned is None else settlement


class Child:
    """One process; its blocking methods are called in threads.

    Attributes:
        is_worn: True if it must not be used again.
        has_begun: False if it died before it called the handler of its last job.
        imported: Module and qualified name of the handlers that it can import.
    """

    def __init__(self, max_memory_mb: int | None) -> None:
        self._max_memory_mb = max_memory_mb
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._is_killed = False
        self._is_over = False  # its pid may be reused
        self.is_worn = False
        self.has_begun = True
        self.imported: set[tuple[str, str]] = set()

    def call(self, job: Job) -> Reply | str:
        """Send a job and wait for its reply; the death of the process becomes a failure reply.

        Raises:
            NotStartedError: The process cannot be started.
        """
        self.has_begun = True
        try:
            sent = pickle.dumps(job)
        except Exception as error:  # noqa: BLE001 - a payload replaced by middleware
            return Reply((_unsendable(error),) * max(1, len(job.deliveries)), is_failure=True)
        try:
            if self._process is None:
                self._start()
            assert self._pipe is not None  # noqa: S101 - _start() sets it
            self.has_begun = False
            self._pipe.send_bytes(sent)
            received = self._receive()
            self.has_begun = True
            if received == BEGUN:
                received = self._receive()
            reply: Reply | str = pickle.loads(received)  # noqa: S301 - from our own process
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

    def wear_out(self) -> None:
        """Kill the process, and do not use it again."""
        self.is_worn = True
        self.kill()

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

    def _receive(self) -> bytes:
        """Wait for a message or the death of the process, whose forks may hold its end of the pipe.

        Raises:
            EOFError: It died.
        """
        assert self._pipe is not None  # noqa: S101 - set by the only caller
        while not self._pipe.poll(_LOOK_S):
            if self._has_ended() and not self._pipe.poll():
                raise EOFError
        return self._pipe.recv_bytes()

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
        with _starting, contextlib.ExitStack() as ends:
            if self._is_killed:
                raise EOFError
            try:
                ours, theirs = context.Pipe()
                ends.callback(theirs.close)  # else EOF would never arrive
                process = context.Process(
                    target=serve,
                    args=(theirs, self._max_memory_mb),
                    name="pgsluice-handler",
                    daemon=False,  # the user's code may start processes too
                )
                process.start()
            # Limits of files, memory, and processes.
            except (OSError, MemoryError, RuntimeError) as error:
                raise NotStartedError(f"cannot start a handler process: {error!r}") from error
            self._process, self._pipe = process, ours

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


def _end_all(children: list[Child]) -> None:
    for child in children:
        child.close()
    for child in children:
        child.join()
