"""Parameters of the query string."""

from __future__ import annotations

from datetime import UTC, datetime

from starlette.exceptions import HTTPException
from starlette.requests import Request

_BIGINT_MAX = 2**63 - 1


def whole_or_none(request: Request, name: str) -> int | None:
    """Return a whole number of the query, or None if it is missing or empty.

    Raises:
        HTTPException: It is not a number that PostgreSQL's bigint can hold.
    """
    text = request.query_params.get(name, "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or int(text[:20]) > _BIGINT_MAX or len(text) > 19:
        raise HTTPException(400, f"{name} is not a valid number: {text[:40]}")
    return int(text)


def moment_or_none(request: Request, name: str) -> datetime | None:
    """Return a time of the query, in UTC if it has no zone, or None if it is missing or empty.

    Raises:
        HTTPException: It is not a valid time.
    """
    text = request.query_params.get(name, "").strip()
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise HTTPException(400, f"{name} is not a valid time: {text[:40]}") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def required(request: Request, name: str) -> str:
    """Return a text of the query.

    Raises:
        HTTPException: It is missing.
    """
    text = request.query_params.get(name, "")
    if not text:
        raise HTTPException(400, f"the address of this page needs {name}")
    return text
