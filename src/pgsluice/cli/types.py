"""Parameter types of several commands: durations, times, JSON, partition sizes and connection URLs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from pgsluice.connection import sqlalchemy_driver
from pgsluice.durations import EXAMPLES, SECONDS_MAX, parse_duration
from pgsluice.errors import ConfigurationError
from pgsluice.lake.names import ColumnName

FOREVER = "forever"
_PARTITION_SIZE = re.compile(
    r"0*[1-9]\d{0,8}([smhdw]| (second|minute|hour|day|week|month)s?)?", re.IGNORECASE
)
# A quoted name may contain the sign.
_COLUMN_TYPE = re.compile(r'((?:"(?:[^"]|"")*"|[^"=])*)=(.+)', re.DOTALL)


class Duration(click.ParamType):  # type: ignore[type-arg]  # older releases are not generic
    """A number of seconds, or a number with a unit; converts to seconds, `forever` to infinity."""

    name = "duration"

    def __init__(
        self,
        *,
        min_s: float = 0,
        is_open: bool = False,
        is_whole: bool = False,
        may_be_forever: bool = False,
    ) -> None:
        """Limit the accepted durations.

        Args:
            min_s: Minimum, in seconds.
            is_open: Refuse the minimum itself.
            is_whole: Accept whole seconds only, and convert to int.
            may_be_forever: Accept `forever`.
        """
        self._min_s = min_s
        self._is_open = is_open
        self._is_whole = is_whole
        self._may_be_forever = may_be_forever

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if not isinstance(value, str):
            return float(value)
        if value == FOREVER and self._may_be_forever:
            return math.inf
        seconds = parse_duration(value)
        if seconds is None:
            forever = f" or {FOREVER}" if self._may_be_forever else ""
            self.fail(
                f"{value!r} is not a valid duration; write seconds, or a number and a unit: {EXAMPLES}{forever}",
                param,
                ctx,
            )
        if seconds < self._min_s or (self._is_open and seconds == self._min_s):
            self.fail(
                f"{value!r} is too short; the duration must be "
                f"{'more than' if self._is_open else 'at least'} {self._min_s:g}s",
                param,
                ctx,
            )
        if self._is_whole and not seconds.is_integer():
            self.fail(f"{value!r} is not a whole number of seconds", param, ctx)
        if seconds > SECONDS_MAX:
            self.fail(f"{value!r} is too long; the maximum is {SECONDS_MAX // 86_400}d", param, ctx)
        return int(seconds) if self._is_whole else seconds


def decode_json(text: str) -> Any:
    """Decode JSON.

    Raises:
        ValueError: The text is not JSON, or is nested deeper than the decoder allows.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


class Json(click.ParamType):  # type: ignore[type-arg]
    """JSON, decoded."""

    name = "json"

    def __init__(self, *, is_object: bool = False) -> None:
        """Accept objects only if asked to."""
        self._is_object = is_object

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            decoded = decode_json(value)
        except ValueError as error:
            self.fail(f"the value is not JSON ({error}): {value.strip()[:80]!r}", param, ctx)
        if self._is_object and not isinstance(decoded, dict):
            self.fail(f"the value is not a JSON object: {value.strip()[:80]!r}", param, ctx)
        return decoded


class PartitionSize(click.ParamType):  # type: ignore[type-arg]
    """A number of messages, or a duration with a unit; stays text, as `create_partitioned` takes it."""

    name = "messages|duration"

    def __init__(self, *, may_be_none: bool = False) -> None:
        """Accept the word `none` too if asked to."""
        self._may_be_none = may_be_none

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value).strip()
        if _PARTITION_SIZE.fullmatch(text) or (self._may_be_none and text == "none"):
            return text
        none = ", or none" if self._may_be_none else ""
        message = f"{value!r} is not a partition size; write a number of messages (10000) or a duration (12h, 1d){none}"
        return self.fail(message, param, ctx)


class Time(click.ParamType):  # type: ignore[type-arg]
    """A time in ISO 8601, in the local time zone if the text has none."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(value)
            return moment if moment.utcoffset() is not None else moment.astimezone()
        except (ValueError, OverflowError):
            self.fail(
                f"{value!r} is not a valid time; write 2026-01-31T10:00 or 2026-01-31T10:00Z",
                param,
                ctx,
            )


class Dsn(click.types.StringParamType):
    """A connection URL or keyword string of libpq; names what to remove from a URL of SQLAlchemy."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if driver := sqlalchemy_driver(value):
            # Never quote the URL: it may hold a password.
            self.fail(
                f'the URL names a driver of SQLAlchemy; remove "{driver}": postgresql://user@host/database',
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


def counts_by_table(
    _context: click.Context, _option: click.Parameter, values: Sequence[str]
) -> dict[str, int]:
    """Parse schema.table=NUMBER options to a dictionary."""
    counts = {}
    for value in values:
        table, sign, count = value.rpartition("=")
        if not sign or not count.isdecimal():
            raise click.BadParameter(f"{value!r} is not valid; write schema.table=64")
        counts[table] = int(count)
    return counts


def types_by_column(
    _context: click.Context, _option: click.Parameter, values: Sequence[str]
) -> dict[str, str]:
    """Parse schema.table.column=TYPE options to a dictionary."""
    found = {}
    for value in values:
        parts = _COLUMN_TYPE.fullmatch(value)
        if parts is None:
            raise click.BadParameter(f"{value!r} has no type; write schema.table.column=string")
        try:
            found[str(ColumnName.parse(parts[1]))] = parts[2]
        except ConfigurationError as error:
            raise click.BadParameter(str(error)) from None
    return found


def dsns_by_name(
    _context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> dict[str, str] | None:
    """Parse NAME=DSN options to a dictionary; None if there are none."""
    found = dict(text.partition("=")[::2] for text in given)
    # A URL without a name has "=" in its query, and what precedes it may be a password.
    is_named = all(found) and all("://" not in name for name in found)
    if not is_named or not all(found.values()) or len(found) < len(given):
        raise click.BadParameter("write NAME=DSN, each name once")
    return found or None
