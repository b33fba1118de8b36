"""Payloads as text: exact, indented, with hidden keys, and cut."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import unquote_plus

from pgsluice.client import UnloadableJson
from pgsluice.client.calls.payload import json_parameter
from pgsluice.client.headers import KEY_HEADER
from pgsluice.errors import PayloadError

HIDDEN = "•••"
SHOWN = 20_000  # characters of a payload or a traceback
ERROR_SHOWN = 2_000  # characters of an error


@dataclass(frozen=True, slots=True)
class Redaction:
    """Keys hidden in payloads and headers, and a hook that changes payloads.

    Attributes:
        keys: Keys of objects, at any depth, whose values are hidden; compared without case.
        hook: Gets the name of the queue or log and a payload, and returns what is shown; None: the payload.
    """

    keys: frozenset[str] = frozenset()
    hook: Callable[[str, Any], Any] | None = None

    def apply(self, name: str, value: Any) -> Any:
        """Return what is shown of a payload."""
        if isinstance(value, UnloadableJson):  # its keys cannot be found
            return HIDDEN if self.hides else value
        if self.hook is not None:
            value = self.hook(name, value)
        return self._without_keys(value) if self.keys else value

    @property
    def hides(self) -> bool:
        """True if anything is hidden."""
        return bool(self.keys) or self.hook is not None

    @property
    def hides_key(self) -> bool:
        """True if keys of messages may be hidden."""
        return self.hook is not None or KEY_HEADER in self.keys

    def refusal(self, text: str) -> str | None:
        """Return why payloads are not searched for a text; None: what is found tells no hidden value.

        JSON that has no hidden key is contained in a payload, or not, whatever the hidden values are.
        """
        if not self.hides:
            return None
        if self.hook is not None:
            return "This dashboard hides parts of payloads, so they are not searched."
        try:
            value = json.loads(text)
            json_parameter(value, "text")
        except (ValueError, RecursionError, PayloadError):
            value = None
        is_open = isinstance(value, dict | list) and self._without_keys(value) == value
        if is_open and HIDDEN not in json_line(value):
            return None
        return (
            "This dashboard hides values in payloads, so payloads are searched only for JSON that has none of the "
            'hidden keys, such as {"order": 42}.'
        )

    def text(self, name: str, text: str, *, is_cut: bool = False) -> str:
        """Return what is shown of a text that may be JSON; of a text that cannot be parsed because it is cut, nothing.

        Text that is not JSON is shown, except values of hidden keys in `key=value&key=value`, as PgQ's triggers write.
        """
        if not self.hides:
            return text
        try:
            value = json.loads(text, parse_float=Decimal)
        except (ValueError, RecursionError) as error:
            if is_cut or isinstance(error, RecursionError):
                return HIDDEN
            value = text
        if not isinstance(value, str):
            return json_text(self.apply(name, value))
        changed = self.apply(name, text if value is text else value)
        if not isinstance(changed, str):
            return json_text(changed)
        if value is not text:
            return _scalar(changed)
        return (
            "&".join(self._without_value(pair) for pair in changed.split("&"))
            if self.keys
            else changed
        )

    def _without_value(self, pair: str) -> str:
        key, equals, _ = pair.partition("=")
        is_hidden = equals and unquote_plus(key).lower() in self.keys
        return f"{key}={HIDDEN}" if is_hidden else pair

    def _without_keys(self, value: Any) -> Any:
        whole = [value]
        rest: list[Any] = [whole]
        while rest:  # not recursive: JSON may be nested more deeply than Python calls
            container = rest.pop()
            is_object = isinstance(container, dict)
            members: Any = container.items() if is_object else enumerate(container)
            for key, member in members:
                if is_object and key.lower() in self.keys:
                    container[key] = HIDDEN
                elif isinstance(member, dict | list):
                    container[key] = member.copy()
                    rest.append(container[key])
        return whole[0]


@dataclass(frozen=True, slots=True)
class Shown:
    """A payload as text.

    Attributes:
        text: The text, perhaps cut.
        length: Characters of the whole text; None if it was not rendered to its end.
        is_cut: True if the text is cut.
    """

    text: str
    length: int | None
    is_cut: bool


def shown(text: str, limit: int = SHOWN) -> Shown:
    """Return a text, cut after `limit` characters."""
    return Shown(text[:limit], len(text), len(text) > limit)


def shown_json(value: Any, limit: int = SHOWN) -> Shown:
    """Return a JSON value as indented text, cut after `limit` characters; does not render the rest."""
    return _first(_pieces(value, "\n"), limit)


def shown_line(value: Any, limit: int) -> Shown:
    """Return a JSON value as one line, like `shown_json`."""
    return _first(_pieces(value, None), limit)


def _first(pieces: Iterator[str], limit: int) -> Shown:
    text, length = [], 0
    for piece in pieces:
        text.append(piece)
        length += len(piece)
        if length > limit:
            return Shown("".join(text)[:limit], None, is_cut=True)
    return Shown("".join(text), length, is_cut=False)


def formatted(text: str) -> Shown:
    """Return a text, indented if it is a JSON object or array, cut as by `shown`."""
    try:
        value = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return shown(text)
    return shown_json(value) if isinstance(value, dict | list) else shown(text)


def json_text(value: Any) -> str:
    """Return a JSON value as indented text, with every digit of its numbers."""
    return "".join(_pieces(value, "\n"))


def json_line(value: Any) -> str:
    """Return a JSON value as one line of text, with every digit of its numbers."""
    return "".join(_pieces(value, None))


def _pieces(value: Any, line: str | None) -> Iterator[str]:
    rest: list[Any] = [
        (value, line)
    ]  # texts, and values with the line break before them, the next one last
    while rest:
        each = rest.pop()
        if isinstance(each, str):
            yield each
            continue
        value, line = each
        inner = None if line is None else f"{line}  "
        between = " " if inner is None else inner
        parts: list[Any] = []
        if isinstance(value, dict) and value:
            for key, member in value.items():
                parts += [
                    f",{between}" if parts else f"{{{inner or ''}",
                    f"{_scalar(key)}: ",
                    (member, inner),
                ]
            parts.append(f"{line or ''}}}")
        elif isinstance(value, list) and value:
            for member in value:
                parts += [f",{between}" if parts else f"[{inner or ''}", (member, inner)]
            parts.append(f"{line or ''}]")
        else:
            yield _scalar(value)
        rest += reversed(parts)


def _scalar(value: Any) -> str:
    if isinstance(value, Decimal | UnloadableJson):
        return str(value)
    return json.dumps(value, ensure_ascii=False, default=str)
