"""Values of the query of a page, which a person may have typed: each is checked, and an error has an example."""

from __future__ import annotations

from datetime import UTC, datetime

from starlette.datastructures import QueryParams

from pgsluice.client.calls.arguments import is_bigint
from pgsluice.client.calls.call import is_storable
from pgsluice.dashboard.payloads import Redaction


class PageQuery:
    """The query of a page.

    Attributes:
        problems: What is wrong with its values, one sentence each.
    """

    def __init__(self, query: QueryParams) -> None:
        """Read the query of a request."""
        self._query = query
        self.problems: list[str] = []

    def text(self, name: str) -> str | None:
        """Return a text, or None if it is missing or empty."""
        return self.exact(name) or None

    def exact(self, name: str) -> str | None:
        """Return a text, which may be empty, or None if it is missing."""
        value = self._query.get(name)
        if value is not None and not is_storable(value):
            self.problems.append(f"{name} has a character that PostgreSQL cannot store")
            return None
        return value

    def matching(self, redaction: Redaction) -> str | None:
        """Return the text to search payloads for, or None; one that could tell a hidden value is a problem."""
        text = self.text("matching")
        if text is not None and (refusal := redaction.refusal(text)):
            self.problems.append(refusal)
        return text

    def one_of(self, name: str, allowed: tuple[str, ...]) -> str:
        """Return one of some values; the first if it is missing or unknown."""
        value = self._query.get(name)
        return value if value in allowed else allowed[0]

    def whole(self, name: str, label: str) -> int | None:
        """Return a whole number, or None."""
        text = (self._query.get(name) or "").strip()
        if not text:
            return None
        try:
            value = int(text) if len(text) < 30 else None
        except ValueError:
            value = None
        if value is None or not is_bigint(value):
            self.problems.append(f"{label} is a whole number, such as 42")
            return None
        return value

    def moment(self, name: str, label: str) -> datetime | None:
        """Return a time, in UTC if it has no time zone, or None."""
        text = (self._query.get(name) or "").strip()
        if not text:
            return None
        try:
            value = datetime.fromisoformat(text)
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        except ValueError:
            self.problems.append(f"{label} is a time, such as 2026-01-31T08:00")
            return None
