"""The list of work queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response

from pgsluice.client import NewestSample, QueueSettings, QueueState
from pgsluice.dashboard.database import PageSession
from pgsluice.dashboard.filters import PageQuery
from pgsluice.dashboard.rendering import page
from pgsluice.dashboard.settings import dashboard_of

_PAGE = 100
_UNSAMPLED = 50  # queues whose figures are read directly where no maintenance takes samples
_OLD_S = 300.0
_UNCLAIMED_S = 60.0  # without a live worker
# Orders of the list: by name, or by a figure of the newest sample, without queues where it is 0.
ORDERS = {
    "name": "name",
    "ready": "most ready",
    "in_flight": "most in flight",
    "retrying": "most retrying",
    "delayed": "most delayed",
    "oldest_ready_s": "oldest ready",
    "sent_per_s": "most sent/s",
    "finished_per_s": "most finished/s",
    "dead": "most dead letters",
}


@dataclass(frozen=True, slots=True)
class ListedQueue:
    """A queue with its newest figures.

    Attributes:
        name: Its name.
        figures: Its newest sample; None: it has none.
        paused: Its options if it is paused, or None.
        workers: Live worker processes that claim from it.
    """

    name: str
    figures: NewestSample | None
    paused: QueueSettings | None
    workers: int

    @property
    def trouble(self) -> tuple[int, str]:
        """Its severity, 0 for none, and the reason."""
        figures = self.figures
        ready = (figures and figures.ready) or 0
        if self.paused is not None and ready:
            return 3, "paused"
        if self.paused is not None:
            return 1, "paused"
        if figures is None:
            return 0, ""
        if ready and not self.workers and (figures.oldest_ready_s or 0) > _UNCLAIMED_S:
            return 3, "no live worker claims from it"
        if (figures.oldest_ready_s or 0) > _OLD_S:
            return 2, "not drained"
        if figures.dead:
            return 1, "has dead letters"
        return 0, ""


def read_queues(session: PageSession) -> list[ListedQueue]:
    """Return all queues with their newest figures, by name."""
    sampled = {each.name: each for each in session.operations.list_newest_samples("queue")}
    paused = {
        each.queue_name: each
        for each in session.queues.list_queue_options()
        if each.paused_at is not None
    }
    workers = Counter(
        source.removeprefix("queue ")
        for each in session.operations.list_workers()
        if each.is_live
        for source in each.sources
    )
    names = [each.queue_name for each in session.queues.list_queues()]
    if names and not sampled:
        sampled = _read_directly(session)
    return [
        ListedQueue(name, sampled.get(name), paused.get(name), workers[name])
        for name in sorted(names)
    ]


def _read_directly(session: PageSession) -> dict[str, NewestSample]:
    now = datetime.now(UTC)
    states = session.operations.list_queue_states(qty=_UNSAMPLED)
    return {each.queue_name: as_sample(each, now) for each in states}


def as_sample(state: QueueState, now: datetime) -> NewestSample:
    """Return figures that were read directly as a sample."""
    return NewestSample(
        state.queue_name,
        "",
        now,
        length=state.length,
        ready=state.ready,
        in_flight=state.in_flight,
        delayed=state.delayed,
        oldest_ready_s=state.oldest_ready_s,
        sent=state.sent,
        finished=state.finished,
        dead=state.dead,
        lag_events=None,
        lag_s=None,
        pinned_bytes=None,
        retrying=state.retrying,
        sent_per_s=None,
        finished_per_s=None,
    )


def troubled(queues: Sequence[ListedQueue]) -> list[ListedQueue]:
    """Return the queues that are in trouble or have messages, the worst first."""

    def worst(each: ListedQueue) -> tuple[int, float]:
        return each.trouble[0], (each.figures and each.figures.ready) or 0

    return sorted((each for each in queues if worst(each) > (0, 0)), key=worst, reverse=True)


def _by_figure(queues: Sequence[ListedQueue], name: str) -> list[ListedQueue]:
    """Return the queues with a figure above 0, the highest first."""

    def value(queue: ListedQueue) -> float:
        return getattr(queue.figures, name, None) or 0.0

    return sorted(filter(value, queues), key=value, reverse=True)


def queues(request: Request) -> Response:
    """Show the queues by name, in pages; those whose names contain a text; or the highest by a figure."""
    search = request.query_params.get("search", "")
    order = PageQuery(request.query_params).one_of("order", tuple(ORDERS))
    after = request.query_params.get("after", "")
    found = dashboard_of(request).database.part(read_queues, "queues")
    matching = [each for each in found.value or () if search.lower() in each.name.lower()]
    if order != "name":
        matching = _by_figure(matching, order)
    rest = [each for each in matching if order != "name" or each.name > after]
    return page(
        request,
        "queues.html",
        section="queues",
        found=found,
        search=search,
        total=len(matching),
        shown=rest[:_PAGE],
        next_after=rest[_PAGE - 1].name if len(rest) > _PAGE and order == "name" else None,
        order=order,
        orders=ORDERS,
    )
