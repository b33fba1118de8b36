"""Share a process's concurrency among handlers, by weight, and that of a handler among its databases, in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


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


class Member(Protocol):
    """A handler on one of its databases."""

    @property
    def calls(self) -> int:
        """Number of its calls that run or are allowed to."""
        ...

    @property
    def held(self) -> int:
        """Number of its messages that wait or run."""
        ...

    @property
    def hung(self) -> int:
        """Number of its calls that hang."""
        ...

    def wants(self) -> bool:
        """Return True if it could start one more call now."""
        ...

    def grant(self) -> None:
        """Start one call."""
        ...

    def make_room(self) -> None:
        """Claim more messages, as those of another database need less."""
        ...


class HandlerShare(Turn):
    """Share of a handler: one limit for all of its databases, which take turns."""

    def __init__(self, weight: int, slots: int) -> None:
        """Prepare a share without members.

        Args:
            weight: Its weight relative to the other handlers.
            slots: Maximum concurrent calls of the handler in the process.
        """
        super().__init__(weight, self._wants, self._grant)
        self._slots = slots
        self._members: list[Member] = []

    def join(self, member: Member) -> None:
        """Add a database."""
        self._members.append(member)

    def leave(self, member: Member) -> None:
        """Remove a database."""
        self._members.remove(member)

    @property
    def hung(self) -> int:
        """Number of calls that hang."""
        return sum(member.hung for member in self._members)

    def room(self, member: Member, messages: int) -> int:
        """Return the number of messages that a database may claim when all may hold this number together.

        It may take what the others leave, and at least an equal part, so that it never waits for them.
        """
        if len(self._members) == 1:
            return messages - member.held
        part = -(-messages // len(self._members))
        held = sum(each.held for each in self._members)
        return max(0, messages - held, part - member.held)

    def changed(self) -> None:
        """Wake all databases after a call has ended."""
        for member in self._members:
            member.make_room()

    def _wants(self) -> bool:
        members = self._members
        if sum(member.calls for member in members) >= self._slots:
            return False
        return any(member.wants() for member in members)

    def _grant(self) -> None:
        chosen = next(member for member in self._members if member.wants())
        # The others have their turns first.
        self._members.remove(chosen)
        self._members.append(chosen)
        chosen.grant()


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
        self._shares: dict[str, HandlerShare] = {}

    def join(self, turn: Turn) -> None:
        """Add a handler's share."""
        self._turns.append(turn)

    def share_of(self, handler: str, weight: int, slots: int) -> HandlerShare:
        """Return the share of a handler, the same for all of its databases."""
        if handler not in self._shares:
            self._shares[handler] = HandlerShare(weight, slots)
            self.join(self._shares[handler])
        return self._shares[handler]

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
