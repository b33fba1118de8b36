"""Run a worker in a process, from startup to the exit code."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from pgsluice.backoff import Backoff
from pgsluice.errors import SluiceError
from pgsluice.worker.loops import call_soon
from pgsluice.worker.process.shutdown import Level, Shutdown

if TYPE_CHECKING:
    from pgsluice.worker.app.sharded import ShardedWorker
    from pgsluice.worker.engine.flow.worker import Worker

EXIT_DONE = 0
EXIT_LEFT = 1
EXIT_ERROR = 3
EXIT_REPLACE = 75  # EX_TEMPFAIL of sysexits.h

Result = TypeVar("Result")
Report = Callable[[dict[str, Any]], None]

_log = logging.getLogger(__name__)
_BEAT_S = 0.5
# Time for a hard stop; hung calls are then abandoned.
AT_ONCE_S = 3.0
_EXIT_S = 5.0
# For a process replaced because of hung threads: it must exit before the leases of their messages expire.
_REPLACED_S = 2.0


async def serve(
    make: Callable[[Result], Worker | ShardedWorker],
    shutdown: Shutdown,
    *,
    begin: Callable[[], Awaitable[Result]],
    report: Report,
    until_empty_s: float | None = None,
) -> int:
    """Run a worker until stopped or, with `until_empty_s`, until its sources are empty.

    Args:
        make: Makes the worker from the result of `begin`.
        shutdown: Requests the shutdown.
        begin: Runs preflight checks; raises if the worker cannot start.
        report: Receives the status every half second.
        until_empty_s: Exit after this many idle seconds; None: never.

    Returns:
        The exit code: `EXIT_DONE`; `EXIT_LEFT`, messages are left or dead-lettered; `EXIT_REPLACE`, the process must be
        replaced.

    Raises:
        SluiceError: A permanent error.
    """
    report({"state": "starting"})
    changed = asyncio.Event()
    loop = asyncio.get_running_loop()
    shutdown.watch(lambda: call_soon(loop, changed.set))
    starting = asyncio.create_task(_start(begin, report))
    await _first(starting, changed.wait())
    if not starting.done():
        starting.cancel()
        return EXIT_DONE
    worker = make(starting.result())
    _log.info("worker started handlers=%s", ",".join(_handler_names(worker)))
    running = asyncio.create_task(
        worker.run() if until_empty_s is None else worker.run_until_empty(idle_s=until_empty_s)
    )
    beating = asyncio.create_task(_beat(worker, report))
    try:
        is_finished = await _steer(worker, running, shutdown, changed)
    finally:
        beating.cancel()
    status = asdict(worker.status())
    for handler in status["handlers"]:
        counts = {
            name: count for name, count in handler["counts"].items() if name != "by_error_type"
        }
        _log.info("handler stopped handler=%s", handler["name"], extra=counts)
    if not is_finished:
        return EXIT_LEFT
    results = running.result()
    if status.get("wants_replacement") and shutdown.level is not Level.AT_ONCE:
        return EXIT_REPLACE
    if until_empty_s is not None and (
        status.get("retrying")
        or any(shard["error"] for shard in status["shards"])
        or any(count.dead for count in (results or {}).values())
    ):
        return EXIT_LEFT
    return EXIT_LEFT if shutdown.level is Level.AT_ONCE else EXIT_DONE


def _handler_names(worker: Worker | ShardedWorker) -> list[str]:
    return [handler["name"] for handler in asdict(worker.status())["handlers"]]


async def _steer(
    worker: Worker | ShardedWorker,
    running: asyncio.Task[Any],
    shutdown: Shutdown,
    changed: asyncio.Event,
) -> bool:
    """Forward shutdown requests to the worker; True if it stopped."""
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


async def _start(begin: Callable[[], Awaitable[Result]], report: Report) -> Result:
    """Run preflight checks; retry transient errors."""
    return await Backoff(say=_log.log).async_retry(
        begin, on_failure=lambda: report({"state": "starting", "waits_for": "server"})
    )


async def _beat(worker: Worker | ShardedWorker, report: Report) -> None:
    while True:
        report(asdict(worker.status()))
        await asyncio.sleep(_BEAT_S)


async def _first(task: asyncio.Task[Any], other: Coroutine[Any, Any, object]) -> None:
    """Wait until the task or the other coroutine is done."""
    waiting = asyncio.create_task(other)
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def run_process(serving: Coroutine[Any, Any, int]) -> int:
    """Run `serve` in a new event loop, as the main function of the process.

    Returns:
        The exit code. Hung threads end with the process a moment later.
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
    """Exit soon after a hard stop is requested, even if an import or a handler hangs."""
    shutdown.watch(
        lambda: exit_after(AT_ONCE_S + 1.0, EXIT_LEFT) if shutdown.level is Level.AT_ONCE else None
    )


def exit_after(seconds: float, code: int) -> None:
    """Exit the process after `seconds` unless it has ended by then."""

    def end() -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
