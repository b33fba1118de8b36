"""Share a process's concurrency among handlers, by weight."""

from __future__ import annotations

from collections.abc import Callable


class Turn:
    """Share of one handler."""

    def __init__(self, weight: int, wants: Callable[[], bool], grant: Callable[[], None]) -> None:
        """Prepare a share.

        Args:
            weight: Its weight relative to the others.
            wants: Returns True if the handler could start one more call now.
            grant: Starts one call.
        """
        self.weight = weight
        self.wants = wants
        self.grant = grant
        self.credit = 0


class FairShare:
    """Slots of a process shared by handlers, by smooth weighted round robin.

    For each free slot, every handler that wants one gains its weight as credit. The one with the most credit gets the
    slot and pays the sum of all wanting weights. So weights 3 and 1 give a a b a, a a b a, …, and no handler starves.

    Attributes:
        slots: Number of slots, or None.
    """

    def __init__(self, slots: int | None) -> None:
        """Prepare slots.

        Args:
            slots: Maximum concurrent calls in the process; None: only limited per handler.
        """
        self.slots = slots
        self._free = slots
        self._turns: list[Turn] = []

    def join(self, turn: Turn) -> None:
        """Add a handler's share."""
        self._turns.append(turn)

    def deal(self) -> None:
        """Grant free slots to handlers that want them."""
        if self._free is None:
            for turn in self._turns:
                while turn.wants():
                    turn.grant()
            return
        while self._free > 0:
            wanting = [turn for turn in self._turns if turn.wants()]
            if not wanting:
                return
            for turn in wanting:
                turn.credit += turn.weight
            chosen = max(wanting, key=lambda turn: turn.credit)
            chosen.credit -= sum(turn.weight for turn in wanting)
            self._free -= 1
            chosen.grant()

    def release(self) -> None:
        """Free one slot."""
        if self._free is not None:
            self._free += 1
