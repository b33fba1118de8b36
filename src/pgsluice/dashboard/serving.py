"""Serve a dashboard over HTTP, until stopped."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from pgsluice.dashboard.streams import Streams
from pgsluice.errors import ConfigurationError

_DRAIN_S = 1


class Prefixed:
    """Serve an app below a path, whether or not the proxy in front of it removes the path."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        """Serve `app` below `path`, such as `/pgsluice`; an empty path serves it at the root."""
        self._app = app
        self._path = path.rstrip("/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "http":
            path = scope["path"]
            if path == self._path:
                path = f"{path}/"
            elif not path.startswith(f"{self._path}/"):
                path = f"{self._path}{path}"
            scope = {**scope, "root_path": self._path, "path": path}
        await self._app(scope, receive, send)


class _Server(uvicorn.Server):
    """A server that ends the streams of open pages before it waits for the requests in progress."""

    def __init__(self, config: uvicorn.Config, streams: Streams) -> None:
        super().__init__(config)
        self._streams = streams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._streams.end()
        await super().shutdown(sockets)


@contextmanager
def serving(
    dashboard: Starlette,
    host: str,
    port: int,
    option: str,
    *,
    path: str = "",
    on_end: Callable[[], None] = lambda: None,
) -> Iterator[str]:
    """Serve a dashboard in a thread; yield its address, with the bound port if 0 was requested.

    At the end the dashboard is closed.

    Args:
        dashboard: What `pgsluice.dashboard.app` returned.
        host: Name or address to listen at.
        port: Port; 0: any free one.
        option: Option that the error names.
        path: Path at which a reverse proxy serves the dashboard.
        on_end: Called when the server ends, also by itself.

    Raises:
        ConfigurationError: The port is not available.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.create_server(address[:2], family=family)
    except OSError as error:
        dashboard.state.dashboard.database.close()
        # The error of a socket has its address too.
        reason = (error.strerror or "").partition(" (while")[0]
        raise ConfigurationError(
            f"cannot listen on {host}:{port} for {option} ({reason}); choose another port"
        ) from error
    config = uvicorn.Config(
        Prefixed(dashboard, path),
        log_config=None,  # that of this process, which escapes control characters
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_DRAIN_S,
    )
    server = _Server(config, dashboard.state.dashboard.streams)

    def run() -> None:
        try:
            server.run(sockets=[bound])
        finally:
            on_end()

    thread = threading.Thread(target=run, name="dashboard")
    thread.start()
    try:
        name = f"[{host}]" if ":" in host else host
        yield f"http://{name}:{bound.getsockname()[1]}{path.rstrip('/')}/"
    finally:
        server.should_exit = True
        thread.join()
