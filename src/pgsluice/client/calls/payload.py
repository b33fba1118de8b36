"""Payloads of messages and events as parameters, checked before they are sent."""

from __future__ import annotations

import functools
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

from psycopg.types.json import Jsonb

from pgsluice.client.json_values import check_json, check_text, json_dumps, no_json_form
from pgsluice.client.log_records import NewEvent
from pgsluice.client.payload_type import TEXT_TYPES, PayloadType, payload_type
from pgsluice.client.unloadable import UnloadableJson
from pgsluice.errors import PayloadError


def json_parameter(value: Any, name: str) -> Jsonb | None:
    """Return a `jsonb` parameter for a Python value.

    Args:
        value: None (SQL null), or a value for `json.dumps`: bool, int, float, str, list, tuple, dict with str keys. In
            it, dataclasses, Pydantic models, enums, datetime, date, time, UUID and Decimal are converted as handlers'
            payloads of these types are. `UnloadableJson` is sent as the JSON that it is.
        name: Name of the argument for the error, such as `message` or `headers[3]`.

    Raises:
        ArgumentError: A dataclass or model has a type that cannot be a payload. Nothing was sent.
        PayloadError: The value contains NaN or infinity, a NUL or a lone surrogate, a key that is not a string, an
            integer of more than 4000 digits, or a type without a JSON form; the error names the path. Nothing was sent.
    """
    if value is None:
        return None
    if isinstance(value, UnloadableJson):
        return Jsonb(value, dumps=str)
    check_json(value, name, _convert)
    return Jsonb(value, dumps=_dumps)


def text_parameter(value: str | None, name: str) -> str | None:
    """Return a text, or None, after checking that PostgreSQL can store it.

    Raises:
        PayloadError: The value is not a str, or contains a NUL or a lone surrogate. Nothing was sent.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise PayloadError(
            f"{name} is of type {type(value).__name__}; an event holds text: use str() or json.dumps()"
        )
    check_text(value, name)
    return value


def event_parameters(event: NewEvent, where: str = "") -> NewEvent:
    """Return an event after checking that PostgreSQL can store its fields; errors prefix the field's name with `where`.

    Raises:
        PayloadError: It is no event, or as for `text_parameter`.
    """
    if not isinstance(event, tuple) or len(event) != len(NewEvent._fields):
        raise PayloadError(
            f"{where.removesuffix('.') or 'event'} is of type {type(event).__name__}; pass a NewEvent"
        )
    for name, value in zip(NewEvent._fields, event, strict=True):
        text_parameter(value, f"{where}{name}")
    return event


def _dumps(value: Any) -> str:
    return json_dumps(value, _convert)


def _convert(value: Any, path: str) -> Any:
    converter = _converter(type(value))  # type: ignore[arg-type]
    return no_json_form(value, path) if converter is None else converter.encode(value, path)


@functools.lru_cache(maxsize=1024)
def _converter(kind: type) -> PayloadType | None:
    """Return the payload type of a class, or None for other classes, even if Pydantic could convert them."""
    is_known = (
        kind in TEXT_TYPES
        or is_dataclass(kind)
        or issubclass(kind, Enum)
        or hasattr(kind, "__pydantic_validator__")
    )
    return payload_type(kind) if is_known else None
