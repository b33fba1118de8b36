"""Reports a worker process to the database, for `pgsluice workers`: what it runs, and that it lives."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from importlib.metadata import version
from typing import Any

from psycopg_pool import AsyncConnectionPool

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import operations
from pgsluice.client.calls.operations import WorkerIdentity
from pgsluice.errors import NotInstalledError, PrivilegeError, SluiceError
from pgsluice.worker.engine.flow.status import HandlerStatus, RunningCall
from pgsluice.worker.engine.run.call_times import RecentCalls
from pgsluice.worker.handlers.handler import HandlerSpec, Route

_log = logging.getLogger(__name__)
# The server takes a worker for lost after three missed reports.
_REPORT_S = 30.0
_REQUESTED_S = 2.0  # least time between two reports, also if more are requested
# The listener connects while the worker starts.
_FIRST_REPORT_S = 2.0
# An older schema or a role without the rights: an administrator may change that.
_UNABLE_S = 600.0
_END_S = 1.0
_CALLS_MAX = 100
_RESULTS = ("done", "retry", "released", "dead", "lost")


def identity(
    worker_id: str, app: str, specs: Iterable[HandlerSpec], concurrency: int | None
) -> WorkerIdentity:
    """Return this process as it registers itself.

    Args:
        worker_id: Its host, pid and a random number, with colons between.
        app: Name of its app.
        specs: Its handlers.
        concurrency: Maximum concurrent calls in the process, or None.
    """
    host, pid, _ = worker_id.rsplit(":", 2)
    specs = list(specs)
    sources = [_source(spec) for spec in specs]
    policies = [
        {"source": source, "handler": spec.name, **spec.retry.options}
        for source, spec in zip(sources, specs, strict=True)
        if spec.retry is not None
    ]
    return WorkerIdentity(
        worker_id,
        app,
        host,
        int(pid),
        version("pgsluice"),
        sorted(set(sources)),
        concurrency,
        policies,
    )


def _source(spec: HandlerSpec) -> str:
    return " ".join(itertools.chain(*spec.route.fields.items()))


@contextlib.asynccontextmanager
async def registered(
    pool: AsyncConnectionPool[Any],
    worker: WorkerIdentity,
    calls: Callable[[], Iterable[RunningCall]],
    handlers: Callable[[], Iterable[HandlerStatus]],
    times: Callable[[], Sequence[tuple[HandlerSpec, RecentCalls]]],
    backend_pid: Callable[[], int | None],
    requested: asyncio.Event | None = None,
) -> AsyncIterator[None]:
    """Report this process while the block runs; a report that fails is skipped and affects nothing else.

    Args:
        pool: Provides a connection for a report.
        worker: This process.
        calls: Returns its running calls.
        handlers: Returns the status of its handlers.
        times: Returns the calls of the last minutes by handler.
        backend_pid: Returns the server process of a session that the process keeps open, or None.
        requested: Set to request a report at once, as by a page that shows workers; None: none is requested.
    """
    runner = AsyncRunner(pool)
    began_s = time.monotonic()

    async def report() -> None:
        recent = times()
        call = operations.report_worker(
            worker,
            time.monotonic() - began_s,
            _running(calls()),
            {handler.name: _counts(handler) for handler in handlers()},
            backend_pid(),
            _times(recent),
            _slowest(recent),
        )
        await runner.run(call)

    reporting = asyncio.create_task(
        _report(report, backend_pid, requested or asyncio.Event()), name="registration"
    )
    try:
        yield
    finally:
        reporting.cancel()
        ending = asyncio.create_task(_end(runner, reporting, worker.worker_id))
        # A server that does not respond must not delay the stop.
        await asyncio.wait([ending], timeout=_END_S)
        ending.cancel()


async def _report(
    report: Callable[[], Any],
    backend_pid: Callable[[], int | None],
    requested: asyncio.Event,
) -> None:
    is_first = True
    while True:
        requested.clear()
        pause_s = _REPORT_S
        if is_first and backend_pid() is None:
            pause_s = _FIRST_REPORT_S
        is_first = False
        try:
            await report()
        except (NotInstalledError, PrivilegeError) as error:
            _log.info('worker is not registered error="%s"', error)
            await asyncio.sleep(_UNABLE_S)
            continue
        except SluiceError as error:
            _log.debug('report skipped error="%s"', error)
        await asyncio.sleep(min(pause_s, _REQUESTED_S))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s - _REQUESTED_S):
                await requested.wait()


async def _end(runner: AsyncRunner, reporting: asyncio.Task[None], worker_id: str) -> None:
    await asyncio.wait([reporting])  # a later report would list the worker again
    with contextlib.suppress(SluiceError):
        await runner.run(operations.end_worker(worker_id))


def _call(handler: str, route: Route, message_id: int) -> dict[str, Any]:
    return {"handler": handler, **route.fields, route.id_name: message_id}


def _running(calls: Iterable[RunningCall]) -> list[dict[str, Any]]:
    now_s = time.monotonic()
    longest = sorted(calls, key=lambda call: call.began_s)[:_CALLS_MAX]
    return [
        {
            **_call(call.handler, call.route, call.message_id),
            "running_s": round(now_s - call.began_s, 3),
        }
        for call in longest
    ]


def _times(recent: Iterable[tuple[HandlerSpec, RecentCalls]]) -> list[dict[str, Any]]:
    return [
        {
            "source": _source(spec),
            "handler": spec.name,
            "max_s": round(calls.slowest[0].seconds, 6),
            "buckets": calls.buckets,
        }
        for spec, calls in recent
        if calls.slowest
    ]


def _slowest(recent: Iterable[tuple[HandlerSpec, RecentCalls]]) -> list[dict[str, Any]]:
    now_s = time.monotonic()
    return [
        {
            **_call(spec.name, spec.route, call.message_id),
            "seconds": round(call.seconds, 6),
            "ended_s": round(now_s - call.ended_s, 3),
        }
        for spec, calls in recent
        for call in calls.slowest
    ]


def _counts(handler: HandlerStatus) -> dict[str, int]:
    by_result = {result: getattr(handler.counts, result) for result in _RESULTS}
    return {result: count for result, count in by_result.items() if count}
