"""Overview: what is in trouble and why, the queues with most to do, and the readers of logs that are behind."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pgsluice.dashboard.pages.queues import read_queues, troubled
from pgsluice.dashboard.rendering import page
from pgsluice.dashboard.settings import dashboard_of

_SHOWN = 15


def overview(request: Request) -> Response:
    """Show what is in trouble."""
    dashboard = dashboard_of(request)
    database = dashboard.database
    queues = database.part(read_queues, "queues")
    consumers = database.part(lambda s: s.operations.list_newest_samples("consumer"), "consumers")
    groups = database.part(lambda s: s.operations.list_newest_samples("group"), "groups")
    workers = database.part(lambda s: s.operations.list_workers(), "workers")
    behind = [each for each in (*(consumers.value or ()), *(groups.value or ())) if each.lag_events]
    return page(
        request,
        "overview.html",
        section="overview",
        queues=queues,
        troubled=troubled(queues.value or [])[:_SHOWN],
        consumers=consumers,
        groups=groups,
        behind=sorted(behind, key=lambda each: -(each.lag_s or 0))[:_SHOWN],
        workers=workers,
        diagnosis=dashboard.diagnosis.latest(),
    )
