"""Messages of one key are handled one after the other: no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from pgsluice.worker.runtime.delivery import Delivery


class Keys:
    """Who is at work for each key, and who stands behind.

    A source gives messages of a key that is kept in order only to one lane at a time, but it may give several. The next
    one goes on when it is settled what becomes of the one before.
    """

    def __init__(self) -> None:
        self._lines: dict[str, deque[Delivery]] = {}

    def enter(self, delivery: Delivery) -> bool:
        """Take a message in; whether it may go on at once."""
        if delivery.key is None:
            return True
        line = self._lines.get(delivery.key)
        if line is None:
            self._lines[delivery.key] = deque([delivery])
            return True
        line.append(delivery)
        return False

    def leave(self, delivery: Delivery) -> Delivery | None:
        """Let go of a message; the one that may go on now."""
        line = self._lines.get(delivery.key) if delivery.key is not None else None
        if line is None or delivery not in line:
            return None
        was_first = line[0] is delivery
        line.remove(delivery)
        if not line:
            assert delivery.key is not None  # noqa: S101 - it has a line
            del self._lines[delivery.key]
            return None
        return line[0] if was_first else None

    def behind(self) -> Iterator[Delivery]:
        """Those that may not go on yet."""
        for line in self._lines.values():
            for position, delivery in enumerate(line):
                if position > 0:
                    yield delivery
