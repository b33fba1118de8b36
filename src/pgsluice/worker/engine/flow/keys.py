"""Serialize messages with the same ordering key, and messages that may crash their process: no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from pgsluice.worker.engine.delivery import Delivery


class Keys:
    """Queues of deliveries per ordering key; only the first of each may run.

    A source delivers messages of an ordered key to one lane at a time, but possibly several. The next one starts when
    the previous one is settled.

    Messages that may have killed their process share one more queue: run concurrently, each crash would cost all of
    them an attempt, until all attempts are used up.
    """

    def __init__(self) -> None:
        self._lines: dict[tuple[str | None, bool], deque[Delivery]] = {}

    def enter(self, delivery: Delivery) -> bool:
        """Add a delivery; True if it may run now."""
        name = _line_of(delivery)
        if name is None:
            return True
        line = self._lines.get(name)
        if line is None:
            self._lines[name] = deque([delivery])
            return True
        line.append(delivery)
        return False

    def leave(self, delivery: Delivery) -> Delivery | None:
        """Remove a delivery; return the next one that may run now."""
        name = _line_of(delivery)
        line = None if name is None else self._lines.get(name)
        if name is None or line is None or delivery not in line:
            return None
        was_first = line[0] is delivery
        line.remove(delivery)
        if not line:
            del self._lines[name]
            return None
        return line[0] if was_first else None

    def behind(self) -> Iterator[Delivery]:
        """Yield deliveries that may not run yet."""
        for line in self._lines.values():
            for position, delivery in enumerate(line):
                if position > 0:
                    yield delivery


def _line_of(delivery: Delivery) -> tuple[str | None, bool] | None:
    if delivery.is_suspect:
        return None, True
    return None if delivery.key is None else (delivery.key, False)
