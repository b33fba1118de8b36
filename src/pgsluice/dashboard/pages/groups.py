"""A share group: its lag, claims and leases, blocked keys, and dead events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from pgsluice.client.calls.dead_events import list_dead_events
from pgsluice.client.calls.samples import list_group_settings
from pgsluice.client.log_records import ListedDeadEvent
from pgsluice.dashboard.pages.logs import newest_samples
from pgsluice.dashboard.pages.parameters import required, whole_or_none
from pgsluice.dashboard.payloads import shown
from pgsluice.dashboard.reader_history import read_history
from pgsluice.dashboard.rendering import page
from pgsluice.dashboard.settings import dashboard_of
from pgsluice.errors import GroupNotFoundError

_ROWS = 100  # claims and keys
_PAGE = 50  # dead events
_ERROR = 300  # characters


@dataclass(frozen=True, slots=True)
class DeadKind:
    """The dead events of a page with one reason and first line of an error."""

    reason: str
    error: str
    count: int
    first_at: datetime
    last_at: datetime


def group(request: Request) -> Response:
    """Show a share group."""
    log, name = required(request, "log"), required(request, "group")
    dead_after = whole_or_none(request, "dead_after")
    dashboard = dashboard_of(request)
    database = dashboard.database
    listed = database.read(lambda s: s.run(list_group_settings(log)), "group settings", log)
    settings = next((each for each in listed if each.group_name == name), None)
    # Dead events outlive their group.
    dead = database.part(
        lambda s: s.run(list_dead_events(log, name, dead_after, _PAGE + 1)),
        *("dead events", log, name, dead_after),
    )
    if settings is None and not dead.value:
        raise GroupNotFoundError(f'log "{log}" has no share group "{name}"')
    events = (dead.value or [])[:_PAGE]
    return page(
        request,
        "group.html",
        section="logs",
        log=log,
        name=name,
        settings=settings,
        figures=next(
            (e for e in newest_samples(dashboard) if (e.name, e.reader_name) == (log, name)), None
        ),
        dead=dead,
        dead_after=dead_after,
        dead_events=[(each, _error(each)) for each in events],
        dead_kinds=dead_kinds(events),
        next_dead=events[-1].dead_event_id if len(dead.value or ()) > _PAGE else None,
        rows_max=_ROWS,
        **(_parts(request, log, name) if settings else {}),
    )


def _parts(request: Request, log: str, name: str) -> dict[str, Any]:
    database = dashboard_of(request).database
    return {
        "explained": database.part(
            lambda s: s.group(log, name).explain(), "explain group", log, name
        ),
        "claims": database.part(lambda s: s.group(log, name).list_claims(), "claims", log, name),
        "keys": database.part(
            lambda s: s.group(log, name).list_blocked_keys(), "blocked keys", log, name
        ),
        "history": read_history(request, "group", log, [name]),
    }


def _error(event: ListedDeadEvent) -> str:
    cut = shown((event.error or "").strip(), _ERROR)
    return f"{cut.text}…" if cut.is_cut else cut.text


def dead_kinds(events: Sequence[ListedDeadEvent]) -> list[DeadKind]:
    """Group dead events by reason and first line of their error, the most frequent first."""
    found: dict[tuple[str, str], list[ListedDeadEvent]] = {}
    for each in events:
        first_line = (each.error or "").strip().partition("\n")[0][:_ERROR]
        found.setdefault((each.reason, first_line), []).append(each)
    kinds = [
        DeadKind(*kind, len(members), *_times([each.dead_at for each in members]))
        for kind, members in found.items()
    ]
    return sorted(kinds, key=lambda each: -each.count)


def _times(times: Sequence[datetime]) -> tuple[datetime, datetime]:
    return min(times), max(times)
