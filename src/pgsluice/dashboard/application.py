"""The ASGI app of the dashboard."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from pgsluice.connection import Target, resolve
from pgsluice.dashboard.acts.catalog import ACTS
from pgsluice.dashboard.database import Database
from pgsluice.dashboard.diagnosis import Diagnoses
from pgsluice.dashboard.guard import Guard
from pgsluice.dashboard.live import live
from pgsluice.dashboard.pages import ROUTES
from pgsluice.dashboard.pages.shards import show_shards
from pgsluice.dashboard.payloads import Redaction
from pgsluice.dashboard.problems import HANDLERS
from pgsluice.dashboard.settings import Authenticate, Dashboard
from pgsluice.dashboard.streams import Streams
from pgsluice.shards import Shards


class _Assets(StaticFiles):
    """Files whose address has the hash of their contents: browsers keep them."""

    async def get_response(self, path: str, scope: Any) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


def app(
    dsn: str | Target | None = None,
    *,
    authenticate: Authenticate | None = None,
    allow_actions: bool = False,
    key: str | None = None,
    hidden_keys: Collection[str] = (),
    redact: Callable[[str, Any], Any] | None = None,
    title: str = "",
    timeout_s: float = 2.0,
    refresh_s: float = 5.0,
    connections_max: int = 4,
    shards: Shards | None = None,
) -> Starlette:
    """Return the dashboard as an ASGI app, to serve alone or to mount below any path of another app.

    It reads as the role of `dsn`: with `sluice_monitor` it shows figures without payloads, with `sluice_reader` also
    payloads. Actions need `sluice_admin`. It connects in threads at once, and again whenever the server comes back.

    Args:
        dsn: The database; None: as for the command line.
        authenticate: Returns the name of the viewer of a request, or None to refuse it; called in a thread. None: only
            requests from this machine to localhost are answered, and actions need `key`.
        allow_actions: Offer actions: send, retry, redrive, purge, pause, and others.
        key: Without `authenticate`, a secret that a browser must have for actions, such as `secrets.token_urlsafe()`:
            the address with `?key=` and this sets a cookie. None: actions without `authenticate` are refused.
        hidden_keys: Keys of payloads and headers, at any depth, whose values are hidden.
        redact: Gets the name of the queue or log and a payload, and returns what is shown.
        title: Name of the environment, shown on each page.
        timeout_s: Timeout of each statement in seconds.
        refresh_s: Time between two refreshes of an open page in seconds; viewers share readings of this age.
        connections_max: Maximum number of connections to a database.
        shards: Several databases instead of `dsn`, each below its name; `/` leads to a list of them.

    Raises:
        ConfigurationError: The DSN cannot be parsed.
    """
    if shards is None:
        targets = {"": dsn if isinstance(dsn, Target) else resolve(dsn)}
    else:
        targets = {name: resolve(shards.dsn(name)) for name in shards.names}
    databases = {
        # A little less than the refresh, so that each refresh reads anew.
        name: Database(
            target, timeout_s=timeout_s, share_s=refresh_s * 0.8, connections_max=connections_max
        )
        for name, target in targets.items()
    }
    streams = Streams()
    dashboards = [
        Dashboard(
            databases[name],
            Diagnoses(target),
            ACTS,
            allows_actions=allow_actions,
            authenticate=authenticate,
            key=key,
            redaction=Redaction(frozenset(key.lower() for key in hidden_keys), redact),
            refresh_s=refresh_s,
            title=title,
            streams=streams,
            shard=name,
            shards={} if shards is None else databases,
        )
        for name, target in targets.items()
    ]
    served = [_served(dashboard) for dashboard in dashboards]
    if shards is None:
        return served[0]
    parent = Starlette(
        routes=[
            Route("/", _to_list, name="list"),
            *(Mount(f"/{one.state.dashboard.shard}", one) for one in served),
        ],
        lifespan=_lifespan(dashboards),
    )
    parent.state.dashboard = dashboards[0]
    return parent


async def _to_list(request: Request) -> Response:
    """Redirect to the list of shards, with the key if the address has it; that page checks the access."""
    dashboard: Dashboard = request.app.state.dashboard
    path = f"{request.scope.get('root_path', '')}/{dashboard.shard}/shards"
    query = request.scope["query_string"].decode("latin-1")
    return RedirectResponse(f"{path}?{query}" if query else path, 303)


def _lifespan(dashboards: Sequence[Dashboard]) -> Any:
    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        for dashboard in dashboards:
            await run_in_threadpool(dashboard.jobs.stop)
            dashboard.database.close()

    return lifespan


def _served(dashboard: Dashboard) -> Starlette:
    """Return the app of one database."""
    routes = [
        *ROUTES,
        *([Route("/shards", show_shards, name="shards")] if dashboard.shards else []),
        Route("/live", live, name="live"),
        Mount("/static", _Assets(packages=[("pgsluice.dashboard", "static")]), name="static"),
    ]
    served = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, dashboard=dashboard)],
        exception_handlers=HANDLERS,
        lifespan=_lifespan([dashboard]),
    )
    served.state.dashboard = dashboard
    # A mounted app has no lifespan of its own.
    dashboard.database.open()
    return served
