"""Mask payload values and secrets in error texts before they are logged. No I/O."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

_MASK = "***"
# Shorter values match parts of ordinary text too often.
_VALUE_CHARS_MIN = 4
# Longer than any text of an error.
_VALUE_CHARS_MAX = 25_000
_VALUES_MAX = 500
# An error may quote the beginning of a value, or its text is cut there: this much of it identifies the value.
_BEGINNING_CHARS = 100

# `postgresql://user:password@host`, including passwords with an @, and DSNs truncated by libpq.
_URL_PASSWORD = re.compile(r"(\w:/{1,2}[^\s/:@\"']*):[^\s\"'/]*@")
_AT_HOST = re.compile(r"([\"'])[^\s\"'@]+@")
_NAMED_SECRET = re.compile(
    r"(?i)((?:password|passwd|pwd|passfile|secret|token|api_?key|scram_\w+_key)[\"']?\s*[=:]\s*)"
    r"(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s,;&)]+)"
)
# libpq quotes the part of a DSN that it cannot parse, possibly the rest of a password.
_DSN_PART = re.compile(
    r"(missing \"=\" after|percent-encoded token:|invalid port number:|invalid integer value) \"[^\"]*\""
)
# pydantic quotes its input.
_PYDANTIC_VALUE = re.compile(r"input_value=.*?(?=, input_type=|\]|$)", re.MULTILINE)
# Fields of a server error that quote rows and statements.
_SERVER_FIELDS = re.compile(
    r"^(?:DETAIL|CONTEXT|QUERY|STATEMENT|LINE \d+):.*?"
    r"(?=^HINT:|^\n(?:The above exception|During handling)|\Z)",
    re.MULTILINE | re.DOTALL,
)
_FRAME = re.compile(r"\s*(?:\||\+-)*\s*File \"")


def without_secrets(text: str) -> str:
    """Mask passwords, tokens, and the values of rows that the server quotes."""
    text = _SERVER_FIELDS.sub("", text)
    text = _URL_PASSWORD.sub(rf"\1:{_MASK}@", text)
    text = _AT_HOST.sub(rf"\1{_MASK}@", text)
    text = _NAMED_SECRET.sub(rf"\1{_MASK}", text)
    text = _DSN_PART.sub(rf'\1 "{_MASK}"', text)
    return _PYDANTIC_VALUE.sub(f"input_value={_MASK}", text)


def values_of(payload: Any) -> list[str]:
    """Return the strings inside a payload that an error may contain, the longest first."""
    if isinstance(payload, str):
        try:
            payload = [payload, json.loads(payload)]  # event data is JSON text
        except (ValueError, RecursionError):
            payload = [payload]
    found: set[str] = set()
    for text in _texts(payload):
        if len(text) >= _VALUE_CHARS_MIN:
            text = text[:_VALUE_CHARS_MAX]
            # Its lines, as texts are masked by line, and as escaped by repr() and json.dumps().
            found |= {line for line in text.splitlines() if len(line) >= _VALUE_CHARS_MIN}
            found |= {repr(text)[1:-1], json.dumps(text)[1:-1]}
        if len(found) >= _VALUES_MAX:
            break
    return sorted(found, key=len, reverse=True)


def without_values(text: str, values: list[str]) -> str:
    """Mask payload values, except in code lines of a traceback."""
    patterns = [pattern for value in values if (pattern := _pattern(value, text)) is not None]
    if not patterns:
        return text
    found = re.compile("|".join(patterns))
    lines = []
    is_code = False
    for line in text.split("\n"):
        if _FRAME.match(line):
            is_code = True
        elif not line.startswith("    "):
            is_code = False
        lines.append(line if is_code else found.sub(_MASK, line))
    return "\n".join(lines)


def _pattern(value: str, text: str) -> str | None:
    """Return a pattern that matches a value only as whole words, or its beginning; None if the text has neither.

    "pack" does not match "packed". Compiling the patterns of all values would take seconds for a large payload.
    """
    before = r"(?<!\w)" if value[0].isalnum() else ""
    if value not in text:
        beginning = value[:_BEGINNING_CHARS]
        if len(value) <= _BEGINNING_CHARS or beginning not in text:
            return None
        at = text.index(beginning)
        quoted = os.path.commonprefix([value, text[at : at + len(value)]])  # noqa: RUF071 - of texts, not of paths
        return before + re.escape(quoted)
    after = r"(?!\w)" if value[-1].isalnum() else ""
    return f"{before}{re.escape(value)}{after}"


def _texts(value: Any) -> Iterator[str]:
    """Yield the strings inside a value, of any depth."""
    rest = [value]
    while rest:
        each = rest.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            rest += each.values()
        elif isinstance(each, list | tuple):
            rest += each
