"""One process that runs handlers: from the wait for the server to the exit code."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import asdict
from typing import Any, Protocol, TypeVar

from pgsluice.backoff import Backoff
from pgsluice.errors import SluiceError
from pgsluice.worker.loops import call_soon
from pgsluice.worker.process.shutdown import Level, Shutdown

EXIT_DONE = 0
EXIT_LEFT = 1
EXIT_ERROR = 3
EXIT_REPLACE = 75  # EX_TEMPFAIL of sysexits.h

Result = TypeVar("Result")
Tell = Callable[[dict[str, Any]], None]

_log = logging.getLogger(__name__)
_BEAT_S = 0.5
# After the end was wanted at once; then what hangs is left hanging.
AT_ONCE_S = 3.0
_EXIT_S = 5.0
# Of a process that is replaced as threads hang: before the leases of their messages expire, it is to be gone.
_REPLACED_S = 2.0


class Runnable(Protocol):
    """What a `Worker` is to those who run it."""

    async def run(self) -> None:
        """Handle messages until it is stopped."""
        ...

    async def run_until_empty(self, *, idle_s: float) -> Any:
        """Handle messages until there are none; what became of them, by handler."""
        ...

    def stop(self, *, now: bool = False) -> None:
        """Claim nothing more, and finish; or end now."""
        ...

    def status(self) -> Any:
        """How it fares: a dataclass."""
        ...


async def serve(
    make: Callable[[Result], Runnable],
    shutdown: Shutdown,
    *,
    begin: Callable[[], Awaitable[Result]],
    tell: Tell,
    until_empty_s: float | None = None,
) -> int:
    """Run a worker until it is told to end, or until there is nothing more to do.

    Args:
        make: Makes the worker of what the beginning has found.
        shutdown: Tells it to end.
        begin: Looks whether it can start; raises what keeps it from it.
        tell: Told every half second how it fares.
        until_empty_s: End when nothing has come for so long; None: never.

    Returns:
        The exit code: `EXIT_DONE`; `EXIT_LEFT`, something is left that was to be done; `EXIT_REPLACE`, a process anew
        would fare better.

    Raises:
        SluiceError: What waiting does not mend.
    """
    tell({"state": "starting"})
    changed = asyncio.Event()
    loop = asyncio.get_running_loop()
    shutdown.watch(lambda: call_soon(loop, changed.set))
    starting = asyncio.create_task(_start(begin, tell))
    await _first(starting, changed.wait())
    if not starting.done():
        starting.cancel()
        return EXIT_DONE
    worker = make(starting.result())
    _log.info("worker: it begins")
    running = asyncio.create_task(
        worker.run() if until_empty_s is None else worker.run_until_empty(idle_s=until_empty_s)
    )
    beating = asyncio.create_task(_beat(worker, tell))
    try:
        is_finished = await _steer(worker, running, shutdown, changed)
    finally:
        beating.cancel()
    status = asdict(worker.status())
    for handler in status["handlers"]:
        counts = {
            name: count for name, count in handler["counts"].items() if name != "by_error_type"
        }
        _log.info("worker: handler %s has ended", handler["name"], extra=counts)
    if not is_finished:
        return EXIT_LEFT
    counts = running.result()
    if status.get("wants_replacement") and shutdown.level is not Level.AT_ONCE:
        return EXIT_REPLACE
    if until_empty_s is not None and any(count.dead for count in (counts or {}).values()):
        return EXIT_LEFT
    return EXIT_LEFT if shutdown.level is Level.AT_ONCE else EXIT_DONE


async def _steer(
    worker: Runnable, running: asyncio.Task[Any], shutdown: Shutdown, changed: asyncio.Event
) -> bool:
    """Pass on what the shutdown wants; whether the worker ended by itself."""
    while not running.done():
        if shutdown.level is Level.FINISH:
            worker.stop()
        elif shutdown.level is Level.AT_ONCE:
            worker.stop(now=True)
            await asyncio.wait([running], timeout=AT_ONCE_S)
            return running.done()
        await _first(running, changed.wait())
        changed.clear()
    return True


async def _start(begin: Callable[[], Awaitable[Result]], tell: Tell) -> Result:
    """Check that it can start; retry transient errors."""
    return await Backoff(say=_log.log).async_retry(
        begin, on_failure=lambda: tell({"state": "starting", "waits_for": "server"})
    )


async def _beat(worker: Runnable, tell: Tell) -> None:
    while True:
        tell(asdict(worker.status()))
        await asyncio.sleep(_BEAT_S)


async def _first(task: asyncio.Task[Any], other: Coroutine[Any, Any, object]) -> None:
    """Wait for the task, but no longer than for the other one."""
    waiting = asyncio.create_task(other)
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def run_process(serving: Coroutine[Any, Any, int]) -> int:
    """Run `serve` in a loop of its own, in a process that has nothing else to do.

    Returns:
        The exit code. What still hangs then ends with the process a moment later.
    """
    try:
        with asyncio.Runner() as runner:
            code = runner.run(serving)
            exit_after(_REPLACED_S if code == EXIT_REPLACE else _EXIT_S, code)
    except SluiceError as error:
        _log.critical("%s", error)
        code = EXIT_ERROR
        exit_after(_EXIT_S, code)
    return code


def end_at_once(shutdown: Shutdown) -> None:
    """Let the process end soon after that is wanted, whatever hangs: a module in its import, a handler in the loop."""
    shutdown.watch(
        lambda: exit_after(AT_ONCE_S + 1.0, EXIT_LEFT) if shutdown.level is Level.AT_ONCE else None
    )


def exit_after(seconds: float, code: int) -> None:
    """End the process after so long if it has not ended by then."""

    def end() -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
