"""Access to the dashboard: authentication, the origin of forms, security headers."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pgsluice.dashboard.secrets import Basic, TooManyGuessesError, is_equal
from pgsluice.dashboard.settings import Authenticate, Dashboard

_READING = ("GET", "HEAD")
_FORWARDED = ("forwarded", "via", "x-real-ip", "cf-connecting-ip", "true-client-ip")
_KEY = "key"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="pgsluice", charset="UTF-8"'}


def basic(password: str) -> Authenticate:
    """Return a function that asks for a password by HTTP Basic authentication; any user name is accepted.

    The user name is recorded with actions. Passwords are compared in constant time, and after ten wrong ones each
    further one makes all wait longer, up to a minute, except browsers that gave the right one before.
    """
    return Basic(password)


class Guard:
    """ASGI middleware: refuses strangers and forms of other sites, and adds security headers."""

    def __init__(self, app: ASGIApp, dashboard: Dashboard) -> None:
        self._app = app
        self._dashboard = dashboard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        # Before a mount below, such as that of the static files, adds its own path.
        scope["pgsluice.prefix"] = scope.get("root_path", "")
        is_answered = False

        async def send_with_headers(message: Message) -> None:
            nonlocal is_answered
            if message["type"] == "http.response.start":
                is_answered = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
                if "pgsluice.cookie" in scope:
                    name, value = scope["pgsluice.cookie"]
                    path = parent_of(request, self._dashboard.shard)
                    headers.append("Set-Cookie", _cookie(name, value, path))
            await send(message)

        try:
            refusal = await self._refusal(request)
            await (refusal or self._app)(scope, receive, send_with_headers)
        except Exception:
            # Else the server would answer, without the headers.
            if not is_answered:
                failure = _text(500, "The dashboard failed to answer; the error is in its log.")
                await failure(scope, receive, send_with_headers)
            raise

    async def _refusal(self, request: Request) -> Response | None:
        """Return the answer to a request that is refused; set the viewer of the others."""
        authenticate: Callable[[Request], str | None] | None = self._dashboard.authenticate
        if authenticate is None:
            refusal = self._refusal_without_password(request)
            if refusal is not None:
                return refusal
        else:
            try:
                viewer = await run_in_threadpool(authenticate, request)
            except TooManyGuessesError as error:
                wait_s = math.ceil(error.wait_s)
                return _text(
                    429,
                    f"Too many wrong passwords; wait {wait_s} s and reload.",
                    {"Retry-After": str(wait_s)},
                )
            if viewer is None:
                return _text(401, "Authentication is required.", _CHALLENGE)
            request.scope["pgsluice.viewer"] = viewer
        if request.method not in _READING and not _is_same_origin(request.headers):
            return _text(403, "This form was sent by another site; open the dashboard and repeat.")
        if request.method not in _READING and not self._dashboard.allows_actions:
            return _text(403, "This dashboard is read-only; start it with --allow-actions.")
        return None

    def _refusal_without_password(self, request: Request) -> Response | None:
        """Refuse other machines, and actions without the key that the start printed.

        A proxy on this machine may look like a browser on it: then anyone may read, but not act.
        """
        if not _is_local(request):
            return _text(
                403,
                "This dashboard has no authentication, and answers only this machine, at localhost. "
                "Start it with a password, or pass authenticate= to pgsluice.dashboard.app.",
            )
        request.scope["pgsluice.viewer"] = ""
        key = self._dashboard.key
        if request.method in _READING:
            if key and is_equal(request.query_params.get(_KEY, ""), key):
                # Else the address with the key would stay in the history and in links.
                request.scope["pgsluice.cookie"] = (_cookie_name(request), key)
                return RedirectResponse(f"{prefix_of(request)}/", 303)
            return None
        if not self._dashboard.allows_actions:
            return None  # refused for that reason
        if key is None:
            return _text(
                403,
                "Actions need authentication: pass authenticate= or key= to pgsluice.dashboard.app.",
            )
        if not is_equal(request.cookies.get(_cookie_name(request), ""), key):
            return _text(
                403,
                "Actions without a password need the key of this dashboard: open the address that its start printed "
                "in this browser, and repeat.",
            )
        return None


def viewer_of(request: Request) -> str:
    """Return the name of the viewer; empty without authentication."""
    return str(request.scope.get("pgsluice.viewer", ""))


def prefix_of(request: Request) -> str:
    """Return the path below which the dashboard is served; empty at the root."""
    return str(request.scope["pgsluice.prefix"])


def parent_of(request: Request, shard: str) -> str:
    """Return the path below which all shards are served; without shards that of the dashboard."""
    prefix = prefix_of(request)
    return prefix.removesuffix(f"/{shard}") if shard else prefix


def _text(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(f"{text}\n", status, headers)


def _cookie_name(request: Request) -> str:
    """Return a name with the port, as browsers send cookies to all ports of a host."""
    server = request.scope.get("server") or ("", "")
    return f"pgsluice_key_{server[1]}"


def _cookie(name: str, value: str, path: str) -> str:
    """Return a cookie until the browser ends, out of reach of scripts and of other sites."""
    return f"{name}={value}; HttpOnly; SameSite=Strict; Path={path.rstrip('/')}/"


def is_loopback(host: str) -> bool:
    """True for the name or an address of this machine's loopback interface."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_local(request: Request) -> bool:
    """True if the request comes from this machine, directly, and names it as such.

    A page of another site may have its own name resolve to 127.0.0.1: its requests have another Host.
    """
    if request.client is None or not is_loopback(request.client.host):
        return False
    if any(name in _FORWARDED or name.startswith("x-forwarded-") for name in request.headers):
        return False
    # No browser of today, but a proxy by nginx's defaults, which leave no other trace.
    if request.scope.get("http_version") == "1.0":
        return False
    try:
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)


def _is_same_origin(headers: Headers) -> bool:
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")  # browsers older than 2023
    return origin is not None and urlsplit(origin).netloc == headers.get("host")
