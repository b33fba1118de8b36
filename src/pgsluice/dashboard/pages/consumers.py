"""A consumer of an event log: its position, lag over time, and why it is behind."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pgsluice.client.calls.samples import list_group_settings
from pgsluice.dashboard.pages.parameters import required
from pgsluice.dashboard.reader_history import is_far_behind, read_history
from pgsluice.dashboard.rendering import page
from pgsluice.dashboard.settings import dashboard_of


def consumer(request: Request) -> Response:
    """Show a consumer; a share group has its own page."""
    log, name = required(request, "log"), required(request, "consumer")
    database = dashboard_of(request).database
    groups = database.read(lambda s: s.run(list_group_settings(log)), "group settings", log)
    if name in {each.group_name for each in groups}:
        path = request.url_for("group").include_query_params(log=log, group=name)
        return RedirectResponse(f"{path.path}?{path.query}", 303)
    explained = database.part(
        lambda s: s.logs.explain_consumer(log, name), "explain consumer", log, name
    )
    consumers = database.part(lambda s: s.logs.list_consumers(log), "log consumers", log)
    state = next((each for each in consumers.value or () if each.consumer_name == name), None)
    pipelines = database.part(lambda s: s.logs.list_pipelines(), "pipelines")
    return page(
        request,
        "consumer.html",
        section="logs",
        log=log,
        name=name,
        explained=explained,
        consumers=consumers,
        state=state,
        is_in_trouble=state is not None and is_far_behind(state.lost, state.lag_s),
        is_pipeline=any(
            (each.log_name, each.consumer_name) == (log, name) for each in pipelines.value or ()
        ),
        history=read_history(request, "consumer", log, [name]),
    )
