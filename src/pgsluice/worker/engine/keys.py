"""Messages of one key are handled one after the other, as are those that may kill: no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from pgsluice.worker.engine.delivery import Delivery


class Keys:
    """Who is at work for each key, and who stands behind.

    A source gives messages of a key that is kept in order only to one lane at a time, but it may give several. The next
    one goes on when it is settled what becomes of the one before.

    Messages that may have killed their process stand in one line too: beside each other, each would take the others
    along every time, and all would use up their attempts.
    """

    def __init__(self) -> None:
        self._lines: dict[tuple[str | None, bool], deque[Delivery]] = {}

    def enter(self, delivery: Delivery) -> bool:
        """Take a message in; whether it may go on at once."""
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
        """Let go of a message; the one that may go on now."""
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
        """Those that may not go on yet."""
        for line in self._lines.values():
            for position, delivery in enumerate(line):
                if position > 0:
                    yield delivery


def _line_of(delivery: Delivery) -> tuple[str | None, bool] | None:
    if delivery.is_suspect:
        return None, True
    return None if delivery.key is None else (delivery.key, False)
