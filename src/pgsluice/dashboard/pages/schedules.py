"""The schedules: when each fires next, whether it is late, failing or paused, and what it sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from starlette.requests import Request
from starlette.responses import Response

from pgsluice.client import OperatorAction, Schedule
from pgsluice.dashboard.database import Database
from pgsluice.dashboard.pages.parameters import required
from pgsluice.dashboard.payloads import Redaction, Shown, shown, shown_json
from pgsluice.dashboard.rendering import page
from pgsluice.dashboard.settings import dashboard_of
from pgsluice.errors import ScheduleNotFoundError

_PAGE = 100
_ACTIONS = 100
_SAME = timedelta(minutes=1)  # of a pause and its action, which has the time of its transaction
_LATE = timedelta(seconds=10)  # as in explain_schedule


@dataclass(frozen=True, slots=True)
class ListedSchedule:
    """A schedule and its condition.

    Attributes:
        state: The schedule.
        condition: `failing`, `late`, `paused`, `waiting` or `ended`.
        paused_by: The role that paused it; None: it is not paused, or that is not known.
    """

    state: Schedule
    condition: str
    paused_by: str | None = None

    @property
    def kind(self) -> str:
        """The class of its badge."""
        kinds = {"failing": "fail", "late": "warn", "paused": "warn", "waiting": "ok"}
        return kinds.get(self.condition, "")


def listed(database: Database, states: Sequence[Schedule], now: datetime) -> list[ListedSchedule]:
    """Return schedules with their conditions, the troubled ones first, then by next slot."""
    pauses = _pauses(database) if any(each.paused_at for each in states) else []
    found = [
        ListedSchedule(each, _condition(each, now), _paused_by(each, pauses)) for each in states
    ]
    order = ("failing", "late", "waiting", "paused", "ended")
    end = datetime.max.replace(tzinfo=UTC)
    return sorted(found, key=lambda e: (order.index(e.condition), e.state.due_at or end))


def _pauses(database: Database) -> list[OperatorAction]:
    """Return the pauses among the newest actions; none if the role may not read actions."""
    read = database.part(lambda s: s.operations.list_actions(qty=_ACTIONS), "newest actions")
    return [each for each in read.value or () if each.action == "pause_schedule"]


def _paused_by(schedule: Schedule, pauses: Sequence[OperatorAction]) -> str | None:
    """Return the role of the pause; an app pauses what it does not declare any more, and records no action."""
    at = schedule.paused_at
    of_schedule = (each for each in pauses if (each.filter or {}).get("name") == schedule.name)
    newest = next(of_schedule, None)
    is_same = at is not None and newest is not None and abs(newest.acted_at - at) < _SAME
    return newest.actor if newest is not None and is_same else None


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
    database = dashboard_of(request).database
    found = database.part(lambda s: s.schedules.list_schedules(), "schedules")
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
        shown=listed(database, matching, datetime.now(UTC))[:_PAGE],
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
        listed=listed(database, [state], datetime.now(UTC))[0],
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
