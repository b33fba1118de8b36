"""The worker processes: what each runs, where it claims, what it has settled, and how long calls take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from pgsluice.client import WorkerProcess
from pgsluice.client.calls.listeners import request_reports
from pgsluice.dashboard.database import Database, PagePart
from pgsluice.dashboard.rendering import page
from pgsluice.dashboard.settings import dashboard_of

_SHOWN = 200
_SLOWEST = 10


@dataclass(frozen=True, slots=True)
class ReportedCall:
    """A call of a handler, as of the last report of its worker.

    Attributes:
        worker: The worker.
        handler: Name of the handler.
        when: Its start; of a finished call, its end.
        at: The message or event: `queue` and `msg_id`, or `log`, `group` or `consumer`, and `ev_id`; of a finished call
            also its duration, `seconds`.
    """

    worker: WorkerProcess
    handler: str
    when: datetime | None
    at: dict[str, Any]


def workers(request: Request) -> Response:
    """Show the workers whose app, host or sources contain a text, or one worker."""
    search = request.query_params.get("search", "")
    worker_id = request.query_params.get("worker", "")
    found = read_workers(dashboard_of(request).database)
    matching = [each for each in found.value or () if _matches(each, search.lower())]
    selected = next((each for each in found.value or () if each.worker_id == worker_id), None)
    reporting = [selected] if selected else [each for each in matching if each.is_live]
    running = running_calls(reporting)
    of_worker = None if selected is None else selected.worker_id
    times = dashboard_of(request).database.part(
        lambda s: s.operations.list_handler_times(of_worker=of_worker),
        *("handler times", of_worker),
    )
    reported = {(each.app, source) for each in reporting for source in each.sources}
    handlers = [each for each in times.value or () if (each.app, each.source) in reported]
    return page(
        request,
        "workers.html",
        section="workers",
        found=found,
        search=search,
        worker_id=worker_id,
        selected=selected,
        live_count=sum(each.is_live for each in matching),
        total=len(matching),
        shown=sorted(matching, key=lambda each: each.is_live)[:_SHOWN],
        running=running[:_SHOWN],
        running_count=len(running),
        settled=settled,
        times=times,
        handlers=handlers[:_SHOWN],
        slowest=slowest_calls(reporting),
    )


def ask_for_reports(database: Database) -> None:
    """Ask the workers to report, so that the next refresh of the page shows what they run then."""
    database.part(lambda s: s.run(request_reports()), "report request")


def read_workers(database: Database) -> PagePart[list[WorkerProcess]]:
    """Return the worker processes, and ask them to report."""
    ask_for_reports(database)
    return database.part(lambda s: s.operations.list_workers(), "workers")


def _matches(worker: WorkerProcess, text: str) -> bool:
    return any(
        text in each.lower()
        for each in (worker.app, worker.host, worker.worker_id, *worker.sources)
    )


def running_calls(workers: Sequence[WorkerProcess]) -> list[ReportedCall]:
    """Return what workers run, longest first."""
    calls = [
        ReportedCall(worker, str(call.get("handler", "")), _moment(call.get("since")), call)
        for worker in workers
        for call in worker.running
    ]
    return sorted(calls, key=lambda each: each.when.timestamp() if each.when else math.inf)


def slowest_calls(
    workers: Sequence[WorkerProcess], queue_name: str | None = None
) -> list[ReportedCall]:
    """Return the slowest calls that ended in the last minutes, slowest first: of live workers, of a queue or of all."""
    calls = [
        ReportedCall(worker, str(call.get("handler", "")), _moment(call.get("ended_at")), call)
        for worker in workers
        if worker.is_live
        for call in worker.slowest
        if queue_name is None or str(call.get("queue", "")).lower() == queue_name.lower()
    ]
    return sorted(calls, key=lambda each: -each.at.get("seconds", 0))[:_SLOWEST]


def _moment(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None


def settled(worker: WorkerProcess) -> int:
    """Return the messages and events that a worker has settled since its start."""
    return sum(count for results in worker.counts.values() for count in results.values())
