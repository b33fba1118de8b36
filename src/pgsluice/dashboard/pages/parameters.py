"""Parameters of the query string: a page with a wrong one is answered with status 400."""

from __future__ import annotations

from datetime import datetime

from starlette.exceptions import HTTPException
from starlette.requests import Request

from pgsluice.dashboard.filters import PageQuery


def whole_or_none(request: Request, name: str) -> int | None:
    """Return a whole number of the query, or None if it is missing or empty.

    Raises:
        HTTPException: It is not a number that PostgreSQL's bigint can hold.
    """
    given = PageQuery(request.query_params)
    value = given.whole(name, name)
    _refuse(given)
    return value


def moment_or_none(request: Request, name: str) -> datetime | None:
    """Return a time of the query, in UTC if it has no zone, or None if it is missing or empty.

    Raises:
        HTTPException: It is not a valid time.
    """
    given = PageQuery(request.query_params)
    value = given.moment(name, name)
    _refuse(given)
    return value


def required(request: Request, name: str) -> str:
    """Return a text of the query.

    Raises:
        HTTPException: It is missing.
    """
    text = request.query_params.get(name, "")
    if not text:
        raise HTTPException(400, f"the address of this page needs {name}")
    return text


def _refuse(given: PageQuery) -> None:
    if given.problems:
        raise HTTPException(400, given.problems[0])
