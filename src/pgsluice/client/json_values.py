"""Validation of JSON values and text before they are sent, so that an error names the path of the value."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from pgsluice.errors import PayloadError

# Python's JSON decoder recurses: a consumer must be able to decode what a producer sends.
DEPTH_MAX = 512
# 4000 digits: Python refuses to convert integers of more than 4300 digits to text and back.
_INT_BITS_MAX = 13_288

# Converts a value without a JSON form of its own, at the path that an error names.
Convert = Callable[[Any, str], Any]


def no_json_form(value: Any, path: str) -> Any:
    """Refuse a value without a JSON form.

    Raises:
        PayloadError: Always.
    """
    raise PayloadError(
        f"{path} is of type {type(value).__name__}, which has no JSON form; convert it to a string, number, list or "
        "dict first"
    )


def json_text(value: Any, name: str) -> str:
    """Return a Python value as JSON text.

    Args:
        value: None (JSON null), or a value for `json.dumps`: bool, int, float, str, list, tuple, dict with str keys.
        name: Name of the argument for the error, such as `message` or `headers[3]`.

    Raises:
        PayloadError: As for `check_json`.
    """
    check_json(value, name)
    return json_dumps(value)


def json_dumps(value: Any, convert: Convert = no_json_form) -> str:
    """Return a checked value as JSON text."""
    return json.dumps(
        value,
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
        default=lambda other: convert(other, "value"),
    )


def check_json(value: Any, path: str, convert: Convert = no_json_form, depth: int = 0) -> None:
    """Check that a value is JSON that PostgreSQL can store.

    Raises:
        PayloadError: The value contains NaN or infinity, a NUL or a lone surrogate, a key that is not a string, an
            integer of more than 4000 digits, or a type that `convert` refuses; the error names the path.
    """
    if depth > DEPTH_MAX:
        raise PayloadError(
            f"{path[:80]}… is nested deeper than {DEPTH_MAX} levels; flatten it, or send it as a string"
        )
    if isinstance(value, str):
        check_text(value, path)
    elif isinstance(value, int):  # bool is an int
        if value.bit_length() > _INT_BITS_MAX:
            raise PayloadError(f"{path} has more than 4000 digits; send it as a string")
    elif value is None:
        return
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise PayloadError(f"{path} is {value}, which JSON cannot hold; send null or a string")
    elif isinstance(value, dict):  # json.dumps refuses other mappings
        for key, item in value.items():
            if not isinstance(key, str):
                raise PayloadError(f"{path} has the key {key!r}; use only strings as keys")
            check_text(key, f"a key of {path}")
            check_json(item, f"{path}[{key!r}]", convert, depth + 1)
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            check_json(item, f"{path}[{position}]", convert, depth + 1)
    else:
        check_json(convert(value, path), path, convert, depth)


def check_text(text: str, path: str) -> None:
    """Check that PostgreSQL can store a text.

    Raises:
        PayloadError: The text contains a NUL or a lone surrogate; the error names the path.
    """
    if "\x00" in text:
        raise PayloadError(
            f"{path} holds a NUL character, which PostgreSQL cannot store; remove it"
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise PayloadError(
            f"{path} holds a lone surrogate (U+{ord(text[error.start]):04X}), which is not valid text; decode it with "
            "errors='replace'"
        ) from None
