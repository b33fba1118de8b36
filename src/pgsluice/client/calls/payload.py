"""JSON that PostgreSQL will store: checked before anything is sent, so that an error can say where it is."""

from __future__ import annotations

import json
import math
from typing import Any

from psycopg.types.json import Jsonb

from pgsluice.client.log_records import NewEvent
from pgsluice.errors import PayloadError

# A reader must be able to decode what a writer could send: Python's own decoder recurses.
DEPTH_MAX = 512
# 4000 digits: beyond 4300 Python itself refuses to write an integer as text, and to read it back.
_INT_BITS_MAX = 13_288


def json_parameter(value: Any, name: str) -> Jsonb | None:
    """Make a `jsonb` parameter of a Python value.

    Args:
        value: None (SQL null), or what `json.dumps` takes: bool, int, float, str, list, tuple, dict with str keys.
        name: What the caller calls it, for the error: `message`, `headers[3]`.

    Raises:
        PayloadError: It holds a NaN or an infinity, a NUL or a lone surrogate, a key that is not a string, an
            integer of more than 4000 digits, or something JSON has no form for; the path to it is named. Nothing
            was sent.
    """
    if value is None:
        return None
    _check(value, name, 0)
    return Jsonb(value, dumps=_dumps)


def json_text(value: Any, name: str) -> str:
    """Make JSON text of a Python value, for where text is stored.

    Args:
        value: As for `json_parameter`; None is JSON's null.
        name: As for `json_parameter`.

    Raises:
        PayloadError: As for `json_parameter`.
    """
    _check(value, name, 0)
    return _dumps(value)


def text_parameter(value: str | None, name: str) -> str | None:
    """Pass a text, or None, if PostgreSQL can store it.

    Raises:
        PayloadError: It is no str, holds a NUL or a lone surrogate. Nothing was sent.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise PayloadError(
            f"{name} is of type {type(value).__name__}; an event holds text: use str() or json.dumps()"
        )
    _check_text(value, name)
    return value


def event_parameters(event: NewEvent, where: str = "") -> NewEvent:
    """Pass an event, if PostgreSQL can store its fields; an error names the field, behind `where`.

    Raises:
        PayloadError: As for `text_parameter`.
    """
    for name, value in zip(NewEvent._fields, event, strict=True):
        text_parameter(value, f"{where}{name}")
    return event


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _check(value: Any, path: str, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise PayloadError(
            f"{path[:80]}… is nested deeper than {DEPTH_MAX} levels; flatten it, or send it as a string"
        )
    if isinstance(value, str):
        _check_text(value, path)
    elif isinstance(value, int):  # bool is an int
        if value.bit_length() > _INT_BITS_MAX:
            raise PayloadError(f"{path} has more than 4000 digits; send it as a string")
    elif value is None:
        return
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise PayloadError(f"{path} is {value}, which JSON cannot hold; send null or a string")
    elif isinstance(value, dict):  # no other mapping: json.dumps refuses it
        for key, item in value.items():
            if not isinstance(key, str):
                raise PayloadError(f"{path} has the key {key!r}; use only strings as keys")
            _check_text(key, f"a key of {path}")
            _check(item, f"{path}[{key!r}]", depth + 1)
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            _check(item, f"{path}[{position}]", depth + 1)
    else:
        raise PayloadError(
            f"{path} is of type {type(value).__name__}, which JSON has no form for; turn it into a string, "
            "number, list or dict first"
        )


def _check_text(text: str, path: str) -> None:
    if "\x00" in text:
        raise PayloadError(
            f"{path} holds a NUL character, which PostgreSQL cannot store; remove it"
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise PayloadError(
            f"{path} holds a lone surrogate (U+{ord(text[error.start]):04X}), which is no text; decode it with "
            "errors='replace'"
        ) from None
