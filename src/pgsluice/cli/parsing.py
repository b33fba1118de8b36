"""What commands are given: times, JSON, lines, and the options that filter messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, TextIO

import click

from pgsluice.cli.options import combined
from pgsluice.errors import PayloadError

FOR_EVER = "forever"
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def time(text: str) -> datetime:
    """A time as ISO 8601 writes it, in the local time zone unless it has one."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no time; write 2026-01-31T10:00 or 2026-01-31T10:00Z"
        ) from None
    return moment if moment.utcoffset() is not None else moment.astimezone()


def duration(text: str) -> timedelta | str:
    """A number and its unit, or `forever`."""
    if text == FOR_EVER:
        return FOR_EVER
    parts = re.fullmatch(r"(\d{1,9})([smhdw])", text)
    if parts is None:
        raise click.BadParameter(
            f"{text!r} is no duration; write 90s, 15m, 12h, 30d, 4w or {FOR_EVER}"
        )
    try:
        return timedelta(**{_UNITS[parts[2]]: int(parts[1])})
    except OverflowError:
        raise click.BadParameter(f"{text!r} is too long; write {FOR_EVER}") from None


def seconds(text: str) -> float:
    """A length of time, in seconds."""
    length = duration(text)
    if not isinstance(length, timedelta):
        raise click.BadParameter(f"{text!r} is no duration here; write 90s, 15m, 12h, 30d or 4w")
    return length.total_seconds()


def json_value(text: str, what: str) -> Any:
    """Decode JSON, or raise PayloadError that says where it was."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise PayloadError(f"{what} is not JSON ({error}): {text.strip()[:80]!r}") from None


def json_object(text: str | None, what: str) -> dict[str, Any] | None:
    """Decode a JSON object, or raise PayloadError that says where it was; None is None."""
    if text is None:
        return None
    value = json_value(text, what)
    if not isinstance(value, dict):
        raise PayloadError(f"{what} is not a JSON object: {text.strip()[:80]!r}")
    return value


def lines(stream: TextIO) -> Iterator[str]:
    """The lines of a stream that are not empty."""
    return (line for line in stream if line.strip())


# The options that say which messages: `read_filter` makes one dictionary of them.
filter_options = combined(
    click.option(
        "--conditional", metavar="JSON", help="Only messages that contain this JSON object."
    ),
    click.option(
        "--conditional-headers",
        metavar="JSON",
        help="Only messages whose headers contain this JSON object.",
    ),
    click.option(
        "--since",
        type=time,
        metavar="TIME",
        help="Only from this time on: sent, archived or given up, whichever brought it where it is.",
    ),
    click.option("--until", type=time, metavar="TIME", help="Only before this time."),
)


def read_filter(
    conditional: str | None = None, conditional_headers: str | None = None, **others: Any
) -> dict[str, Any]:
    """The arguments of the clients' methods from what the filter options were given."""
    given = {
        "conditional": None if conditional is None else json_value(conditional, "--conditional"),
        "conditional_headers": json_object(conditional_headers, "--conditional-headers"),
        **others,
    }
    return {name: value for name, value in given.items() if value not in (None, ())}
