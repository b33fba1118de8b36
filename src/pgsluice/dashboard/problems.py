"""Pages for what cannot be shown: missing objects and rights, a server that is away, a schema that is not installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from pgsluice.dashboard.rendering import page
from pgsluice.errors import (
    ArgumentError,
    ConnectionFailedError,
    ConsumerNotFoundError,
    GroupNotFoundError,
    LogNotFoundError,
    NotInstalledError,
    PayloadError,
    PrivilegeError,
    QueueNameError,
    QueueNotFoundError,
    ReadOnlyError,
    RetryableError,
    ScheduleNotFoundError,
    SluiceError,
)

_TITLES: dict[type[SluiceError], tuple[int, str]] = {
    ConnectionFailedError: (503, "No connection to the server"),
    NotInstalledError: (503, "The schema is not installed, or older than this package"),
    PrivilegeError: (403, "The role of this dashboard lacks a right"),
    ReadOnlyError: (409, "The server refuses writes"),
    RetryableError: (503, "The database is busy"),
    QueueNotFoundError: (404, "Queue not found"),
    LogNotFoundError: (404, "Log not found"),
    GroupNotFoundError: (404, "Share group not found"),
    ConsumerNotFoundError: (404, "Consumer not found"),
    ScheduleNotFoundError: (404, "Schedule not found"),
    QueueNameError: (400, "Invalid name of a queue"),
    ArgumentError: (400, "Invalid value"),
    PayloadError: (400, "Invalid payload"),
}


def _sluice_error(request: Request, error: Exception) -> Response:
    status, title = next(
        (known for kind, known in _TITLES.items() if isinstance(error, kind)),
        (500, "The database reported an error"),
    )
    # The address of a form's answer is not that of a page.
    is_live = status == 503 and request.method == "GET"
    return page(request, "problem.html", status, title=title, text=str(error), is_live=is_live)


def _http_error(request: Request, error: Exception) -> Response:
    refused = cast("HTTPException", error)
    return page(
        request,
        "problem.html",
        refused.status_code,
        title=refused.detail,
        text="",
        is_live=False,
    )


HANDLERS: dict[Any, Callable[[Request, Exception], Response]] = {
    SluiceError: _sluice_error,
    HTTPException: _http_error,
}
