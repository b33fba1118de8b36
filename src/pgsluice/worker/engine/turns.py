"""Whose turn it is, when several handlers of a process want to run and not all may: by weight."""

from __future__ import annotations

from collections.abc import Callable


class Turn:
    """The share of one handler."""

    def __init__(self, weight: int, wants: Callable[[], bool], grant: Callable[[], None]) -> None:
        """Prepare it.

        Args:
            weight: Its part of all weights.
            wants: Whether it could start one more now.
            grant: Lets it start one.
        """
        self.weight = weight
        self.wants = wants
        self.grant = grant
        self.credit = 0


class Turns:
    """Slots of a process that handlers share, dealt by smooth weighted round robin.

    Each time a slot is free, every handler that wants one gets its weight as credit, the one with the most gets the
    slot, and pays with the weights of all who wanted it. So of weights 3 and 1 the turns are a a b a, a a b a, …, and
    nobody who wants waits for longer than the weights say.

    Attributes:
        slots: How many there are, or None.
    """

    def __init__(self, slots: int | None) -> None:
        """Prepare them.

        Args:
            slots: How many handlers may run at once in the process; None: as many as each of them allows itself.
        """
        self.slots = slots
        self._free = slots
        self._turns: list[Turn] = []

    def join(self, turn: Turn) -> None:
        """Take part."""
        self._turns.append(turn)

    def deal(self) -> None:
        """Give what is free to those who want it."""
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

    def give_back(self) -> None:
        """One ended."""
        if self._free is not None:
            self._free += 1
