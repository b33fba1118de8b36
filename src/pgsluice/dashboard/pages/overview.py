"""Overview: what is in trouble and why, what happens over time, what changed, and the readers that are behind."""

from __future__ import annotations

from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

from pgsluice.dashboard.changes import read_changes
from pgsluice.dashboard.history import Span
from pgsluice.dashboard.pages.queues import read_queues, troubled
from pgsluice.dashboard.rendering import page
from pgsluice.dashboard.settings import dashboard_of

_SHOWN = 15
# Added here: a template takes five times as long.
_TOTALS = {
    "ready": 0,
    "in_flight": 0,
    "retrying": 0,
    "delayed": 0,
    "sent_per_s": 0.0,
    "finished_per_s": 0.0,
    "dead": 0,
}
# A point a minute: an overview needs no more, and is read often.
_HOUR = Span("hour", timedelta(hours=1), timedelta(minutes=1))
# With many queues samples are less frequent; after this time there are no figures.
_EVERY_MAX = timedelta(minutes=5)


def overview(request: Request) -> Response:
    """Show what is in trouble."""
    dashboard = dashboard_of(request)
    database = dashboard.database
    queues = database.part(read_queues, "queues")
    consumers = database.part(lambda s: s.operations.list_newest_samples("consumer"), "consumers")
    groups = database.part(lambda s: s.operations.list_newest_samples("group"), "groups")
    workers = database.part(lambda s: s.operations.list_workers(), "workers")
    history = database.part(lambda s: _HOUR.read(s, None), "history of all queues")
    readers = [*(consumers.value or ()), *(groups.value or ())]
    behind = [each for each in readers if each.lag_events]
    figures = [each.figures for each in queues.value or () if each.figures]
    return page(
        request,
        "overview.html",
        section="overview",
        queues=queues,
        figures=figures,
        totals={
            name: sum((getattr(each, name) or 0 for each in figures), start)
            for name, start in _TOTALS.items()
        },
        troubled=troubled(queues.value or [])[:_SHOWN],
        history=history,
        charts=_HOUR.charts(history.value or [], _EVERY_MAX),
        changes=read_changes(database, workers.value or []),
        consumers=consumers,
        groups=groups,
        behind=sorted(behind, key=lambda each: -(each.lag_s or 0))[:_SHOWN],
        workers=workers,
        diagnosis=dashboard.diagnosis.latest(),
    )
