"""The schedules: when each fires next, whether it is late, failing or paused, and what it sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from starlette.requests import Request
from starlette.responses import Response

from pgsluice.client import Schedule
from pgsluice.dashboard.pages.parameters import required
from pgsluice.dashboard.payloads import Redaction, Shown, shown, shown_json
from pgsluice.dashboard.rendering import page
from pgsluice.dashboard.settings import dashboard_of
from pgsluice.errors import ScheduleNotFoundError

_PAGE = 100
_LATE = timedelta(seconds=10)  # as in explain_schedule


@dataclass(frozen=True, slots=True)
class ListedSchedule:
    """A schedule and its condition.

    Attributes:
        state: The schedule.
        condition: `failing`, `late`, `paused`, `waiting` or `ended`.
    """

    state: Schedule
    condition: str

    @property
    def kind(self) -> str:
        """The class of its badge."""
        kinds = {"failing": "fail", "late": "warn", "paused": "warn", "waiting": "ok"}
        return kinds.get(self.condition, "")


def listed(states: Sequence[Schedule], now: datetime) -> list[ListedSchedule]:
    """Return schedules with their conditions, the troubled ones first, then by next slot."""
    found = [ListedSchedule(each, _condition(each, now)) for each in states]
    order = ("failing", "late", "waiting", "paused", "ended")
    end = datetime.max.replace(tzinfo=UTC)
    return sorted(found, key=lambda e: (order.index(e.condition), e.state.due_at or end))


def _condition(schedule: Schedule, now: datetime) -> str:
    if schedule.paused_at is not None:
        return "paused"
    if schedule.is_failing:
        return "failing"
    if schedule.due_at is None:
        return "ended"
    return "late" if schedule.due_at < now - _LATE else "waiting"


def schedules(request: Request) -> Response:
    """Show the schedules whose name or target contains a text."""
    search = request.query_params.get("search", "")
    found = dashboard_of(request).database.part(lambda s: s.schedules.list_schedules(), "schedules")
    matching = [
        each
        for each in found.value or ()
        if search.lower() in each.name.lower() or search.lower() in each.queue_name.lower()
    ]
    return page(
        request,
        "schedules.html",
        section="schedules",
        found=found,
        search=search,
        total=len(matching),
        shown=listed(matching, datetime.now(UTC))[:_PAGE],
    )


def schedule(request: Request) -> Response:
    """Show a schedule."""
    name = required(request, "name")
    dashboard = dashboard_of(request)
    database = dashboard.database
    states = database.read(lambda s: s.schedules.list_schedules(), "schedules")
    state = next((each for each in states if each.name == name), None)
    if state is None:
        raise ScheduleNotFoundError(f'schedule "{name}" does not exist')
    return page(
        request,
        "schedule.html",
        section="schedules",
        name=name,
        listed=listed([state], datetime.now(UTC))[0],
        explained=database.part(
            lambda s: s.schedules.explain_schedule(name), "explain schedule", name
        ),
        texts=_texts(state, dashboard.redaction),
    )


def _texts(schedule: Schedule, redaction: Redaction) -> list[tuple[str, Shown]]:
    """Return what a schedule sends, as texts by name."""
    queue_name = schedule.queue_name
    if schedule.target == "log":
        fields = (schedule.event or {}).items()
        return [(field, shown(redaction.text(queue_name, text))) for field, text in fields]
    values = [("Message", schedule.message)]
    if schedule.headers is not None:
        values.append(("Headers", schedule.headers))
    return [(label, shown_json(redaction.apply(queue_name, value))) for label, value in values]
