"""The values of a form or an address, read and checked."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from pgsluice.client.calls.call import require_storable
from pgsluice.durations import EXAMPLES, SECONDS_MAX, parse_duration
from pgsluice.errors import ArgumentError, PayloadError

IDS_MAX = 100  # of rows that a person has selected
_ID_MAX = 2**63 - 1


class FormValues:
    """Values by name; those of other names are ignored."""

    def __init__(self, values: Mapping[str, str], names: Collection[str]) -> None:
        """Take the values of these names.

        Raises:
            ArgumentError: PostgreSQL cannot store one of them.
        """
        self.values = {name: values[name] for name in names if name in values}
        for text in self.values.values():
            require_storable(text)

    def text(self, name: str) -> str:
        """Return a text that must be there.

        Raises:
            ArgumentError: It is missing or empty.
        """
        text = self.values.get(name)
        if not text:
            raise ArgumentError(f"{name} is missing; open the form from its page")
        return text

    def find(self, name: str) -> str | None:
        """Return a text; None if it is missing or empty."""
        return self.values.get(name) or None

    def find_exactly(self, name: str) -> str | None:
        """Return a text, which may be empty; None if it is missing."""
        return self.values.get(name)

    def number(self, name: str) -> int:
        """Return an id.

        Raises:
            ArgumentError: It is missing, or not an id.
        """
        return _id(name, self.text(name))

    def find_number(self, name: str) -> int | None:
        """Return an id; None if it is missing or empty.

        Raises:
            ArgumentError: It is not an id.
        """
        return self.number(name) if self.find(name) else None

    def find_ids(self, name: str) -> list[int] | None:
        """Return ids in ascending order, each once, of a text with commas; None if it is missing or empty.

        Raises:
            ArgumentError: It has something else, or more than `IDS_MAX` ids.
        """
        texts = (self.find(name) or "").split(",", IDS_MAX)
        if len(texts) > IDS_MAX:
            raise ArgumentError(f"{name} has more than {IDS_MAX} ids; select fewer rows")
        return sorted({_id(name, text) for text in texts}) if self.find(name) else None

    def find_time(self, name: str) -> datetime | None:
        """Return a time; None if it is missing or empty.

        Raises:
            ArgumentError: It is not a time with a time zone.
        """
        text = self.find(name)
        if text is None:
            return None
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise ArgumentError(
                f"{name} is {text!r}; use a time such as 2026-01-31T12:00:00Z"
            ) from None
        if moment.utcoffset() is None:
            raise ArgumentError(f"{name} is {text!r}, without a time zone; add Z for UTC")
        return moment

    def duration(self, name: str) -> timedelta:
        """Return a duration; 0 if it is missing or empty.

        Raises:
            ArgumentError: It is not a duration.
        """
        text = self.find(name) or "0"
        seconds = parse_duration(text)
        if seconds is None or seconds > SECONDS_MAX:
            raise ArgumentError(
                f"{name} is {text!r}; write seconds, or a number and a unit: {EXAMPLES}"
            )
        return timedelta(seconds=seconds)

    def json(self, name: str) -> str:
        """Return a JSON value as text, as it was given.

        Raises:
            PayloadError: It is missing, or not JSON.
        """
        text = self.values.get(name) or ""
        if not text.strip():
            raise PayloadError(f'{name} is empty; write a JSON value, such as {{"order": 1}}')
        _parse(name, text)
        return text

    def find_json_object(self, name: str) -> str | None:
        """Return a JSON object as text; None if it is missing or empty.

        Raises:
            PayloadError: It is not a JSON object.
        """
        text = self.values.get(name) or ""
        if not text.strip():
            return None
        if not isinstance(_parse(name, text), dict):
            raise PayloadError(
                f'{name} is not a JSON object; write one, such as {{"source": "shop"}}'
            )
        return text


def _id(name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,19}", text) or int(text) > _ID_MAX:
        raise ArgumentError(f"{name} is {text!r}; use an id, a whole number")
    return int(text)


def _parse(name: str, text: str) -> object:
    try:
        # The texts of numbers: PostgreSQL reads them, without a limit of digits.
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise PayloadError(f"{name} is not valid JSON: {error}") from None


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")
