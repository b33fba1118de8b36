"""A work queue: figures over time, why it does not run, what fails, its settings and workers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from pgsluice.client import (
    BlockedMessages,
    FailingMessages,
    QueueInfo,
    QueueSettings,
    QueueState,
    WorkerProcess,
)
from pgsluice.client.calls import samples
from pgsluice.dashboard.database import Database, PagePart, PageSession
from pgsluice.dashboard.history import SPANS, span_of
from pgsluice.dashboard.pages.queues import ListedQueue, as_sample
from pgsluice.dashboard.pages.workers import read_workers, slowest_calls
from pgsluice.dashboard.rendering import page
from pgsluice.dashboard.settings import dashboard_of
from pgsluice.errors import QueueNotFoundError

_ACTIONS = 5
_FAILING_MS = 500


def queue(request: Request) -> Response:
    """Show a queue."""
    database = dashboard_of(request).database
    info = registered(database, request.query_params.get("name", ""))
    name = info.queue_name
    span = span_of(request.query_params.get("span"))
    history = database.part(lambda s: span.read(s, name), "history", name, span.name)
    used = database.part(lambda s: s.operations.list_limit_usage(), "limits")
    usage = next((each for each in used.value or () if each.queue_name == name), None)
    settings = database.part(lambda s: s.queues.queue_options(name), "queue settings", name)
    policies = database.part(
        lambda s: s.operations.handler_policies(f"queue {name}"), "handler policies", name
    )
    throttles = database.part(lambda s: s.operations.list_notify_insert_throttles(), "throttles")
    workers = read_workers(database)
    working = _working(workers.value or [], name)
    blocked = _blocked(database, name, settings.value)
    state = database.part(lambda s: s.run(samples.queue_state(name)), "queue state", name)
    return page(
        request,
        "queue.html",
        section="queues",
        name=name,
        info=info,
        span=span,
        spans=SPANS,
        state=state,
        is_in_trouble=_is_in_trouble(
            name, state.value, settings.value, sum(worker.is_live for worker, _ in working)
        )
        or any(each.reason == "parked" for each in blocked.value or ()),
        history=history,
        charts=span.charts(history.value or []),
        explained=database.part(lambda s: s.operations.explain_queue(name), "explain queue", name),
        failing=_failing(database, name),
        usage=PagePart(usage, used.problem),
        blocked=blocked,
        settings=settings,
        policies=policies,
        throttle=next(
            (
                each.throttle_interval_ms
                for each in throttles.value or ()
                if each.queue_name == name
            ),
            None,
        ),
        workers=workers,
        working=working,
        times=database.part(
            lambda s: s.operations.list_handler_times(of_source=f"queue {name}"),
            *("handler times of queue", name),
        ),
        slowest=slowest_calls(workers.value or [], name),
        actions=database.part(
            lambda s: s.operations.list_actions(name, qty=_ACTIONS), "queue actions", name
        ),
    )


def registered(database: Database, name: str) -> QueueInfo:
    """Return a queue by its name in any case.

    Raises:
        QueueNotFoundError: There is no such queue.
    """
    listed = database.read(lambda session: session.queues.list_queues(), "listed queues")
    same = [each for each in listed if each.queue_name.lower() == name.lower()]
    if not same:
        raise QueueNotFoundError(
            f'queue "{name}" does not exist; the page Queues lists the existing ones'
        )
    return next((each for each in same if each.queue_name == name), same[0])


def _is_in_trouble(
    name: str, state: Sequence[QueueState] | None, settings: QueueSettings | None, workers: int
) -> bool:
    """Return whether the list of queues says that it is in trouble."""
    figures = as_sample(state[0], datetime.now(UTC)) if state else None
    paused = settings if settings and settings.paused_at else None
    return ListedQueue(name, figures, paused, workers).trouble[0] > 0


def _failing(database: Database, name: str) -> PagePart[list[FailingMessages]]:
    """Return the failing messages; they are counted one by one, so this has a shorter timeout."""

    def read(session: PageSession) -> list[FailingMessages]:
        session.run(samples.limit_statements(_FAILING_MS))
        return session.operations.list_failing(name)

    found = database.part(read, "failing", name)
    if found.is_timeout:
        return PagePart(problem=f"not read within {_FAILING_MS} ms: too many messages fail")
    return found


def _blocked(
    database: Database, name: str, settings: QueueSettings | None
) -> PagePart[list[BlockedMessages]]:
    """Return the blocked keys of a queue whose limits concern keys."""
    if settings is None or (settings.key_concurrency is None and settings.when_waiting is None):
        return PagePart([])
    return database.part(lambda s: s.operations.list_blocked_messages(name), "blocked", name)


def _working(
    workers: list[WorkerProcess], name: str
) -> list[tuple[WorkerProcess, list[dict[str, Any]]]]:
    """Return the workers that claim from a queue, with their calls of its handlers."""
    return [
        (
            each,
            [call for call in each.running if str(call.get("queue", "")).lower() == name.lower()],
        )
        for each in workers
        if f"queue {name}".lower() in (source.lower() for source in each.sources)
    ]
