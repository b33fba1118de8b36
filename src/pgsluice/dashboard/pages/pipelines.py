"""The pipelines from event logs into the lake: whether each runs, its lag, and its last commit."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pgsluice.dashboard.pages.parameters import required
from pgsluice.dashboard.reader_history import is_far_behind, read_history
from pgsluice.dashboard.rendering import page
from pgsluice.dashboard.settings import dashboard_of

_PAGE = 200


def pipelines(request: Request) -> Response:
    """Show the pipelines, those that do not run and are behind first."""
    found = dashboard_of(request).database.part(lambda s: s.logs.list_pipelines(), "pipelines")
    listed = sorted(found.value or (), key=lambda each: (each.is_running, -(each.lag_events or 0)))
    return page(
        request,
        "pipelines.html",
        section="pipelines",
        found=found,
        total=len(listed),
        shown=listed[:_PAGE],
    )


def pipeline(request: Request) -> Response:
    """Show a pipeline."""
    log, consumer = required(request, "log"), required(request, "consumer")
    database = dashboard_of(request).database
    # A timeout or a missing right concerns this part only; a missing log or consumer the page.
    explained = database.part(
        lambda s: s.logs.explain_consumer(log, consumer), "explain consumer", log, consumer
    )
    listed = database.part(lambda s: s.logs.list_pipelines(), "pipelines")
    consumers = database.part(lambda s: s.logs.list_consumers(log), "log consumers", log)
    state = next(
        (e for e in listed.value or () if (e.log_name, e.consumer_name) == (log, consumer)), None
    )
    return page(
        request,
        "pipeline.html",
        section="pipelines",
        log=log,
        consumer=consumer,
        listed=listed,
        state=state,
        is_in_trouble=state is not None
        and (not state.is_running or is_far_behind(None, state.lag_s)),
        position=next(
            (each for each in consumers.value or () if each.consumer_name == consumer), None
        ),
        explained=explained,
        history=read_history(request, "consumer", log, [consumer]),
    )
