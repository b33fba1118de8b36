"""A share group: its lag, claims and leases, blocked keys, and dead letters by error."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from pgsluice.client.calls.samples import list_group_settings
from pgsluice.dashboard.pages.dead_letters import GROUPED
from pgsluice.dashboard.pages.logs import newest_samples
from pgsluice.dashboard.pages.parameters import required
from pgsluice.dashboard.reader_history import is_far_behind, read_history
from pgsluice.dashboard.rendering import page
from pgsluice.dashboard.settings import dashboard_of
from pgsluice.errors import GroupNotFoundError

_ROWS = 100  # claims and keys


def group(request: Request) -> Response:
    """Show a share group."""
    log, name = required(request, "log"), required(request, "group")
    dashboard = dashboard_of(request)
    database = dashboard.database
    listed = database.read(lambda s: s.run(list_group_settings(log)), "group settings", log)
    settings = next((each for each in listed if each.group_name == name), None)
    # Dead letters outlive their group.
    dead = database.part(
        lambda s: s.dead_letters(log, name).group_by_error(qty=GROUPED), "dead groups", log, name
    )
    if settings is None and not dead.value:
        raise GroupNotFoundError(f'log "{log}" has no share group "{name}"')
    figures = next(
        (e for e in newest_samples(dashboard) if (e.name, e.reader_name) == (log, name)), None
    )
    return page(
        request,
        "group.html",
        section="logs",
        log=log,
        name=name,
        settings=settings,
        figures=figures,
        is_in_trouble=is_far_behind(
            settings.lost if settings else None, figures.lag_s if figures else None
        )
        or bool(dead.value),
        dead=dead,
        dead_max=GROUPED,
        rows_max=_ROWS,
        **(_parts(request, log, name) if settings else {}),
    )


def _parts(request: Request, log: str, name: str) -> dict[str, Any]:
    database = dashboard_of(request).database
    return {
        "explained": database.part(
            lambda s: s.group(log, name).explain(), "explain group", log, name
        ),
        "policies": database.part(
            lambda s: s.operations.handler_policies(f"log {log} group {name}"),
            "handler policies",
            log,
            name,
        ),
        "claims": database.part(lambda s: s.group(log, name).list_claims(), "claims", log, name),
        "keys": database.part(
            lambda s: s.group(log, name).list_blocked_keys(), "blocked keys", log, name
        ),
        "history": read_history(request, "group", log, [name]),
    }
