"""What a snapshot of PostgreSQL sees, and snapshots made of others.

A snapshot, `pg_snapshot`, is written `xmin:xmax:xip`: of the transactions below `xmax` it sees all but those in the
list `xip`, which were running; below `xmin` none was. So "the rows that B sees and A does not" is a set that never
changes, whenever it is asked for, and a snapshot is a place in a log from which to go on.

A snapshot need not be one that PostgreSQL took. Cut at a transaction, it sees the lower ones that it saw before: this
is how a long way is gone in steps, each of whole transactions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from pgsluice.errors import ArgumentError

_FORM = re.compile(r"(\d+):(\d+):((?:\d+(?:,\d+)*)?)")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A set of transactions that have ended.

    Attributes:
        xmin: The lowest transaction that is not in it.
        xmax: It has only transactions below this one.
        running: Those below `xmax` that it has not, ascending.
    """

    xmin: int
    xmax: int
    running: tuple[int, ...] = ()

    @classmethod
    def of(cls, xmax: int, running: set[int]) -> Self:
        """The snapshot of all transactions below `xmax` but the running ones."""
        return cls(min(running, default=xmax), xmax, tuple(sorted(running)))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read PostgreSQL's text form.

        Raises:
            ArgumentError: It is not one.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise ArgumentError(
                f"{text!r} is no snapshot; give what pg_current_snapshot() returned"
            )
        xmin, xmax = int(match[1]), int(match[2])
        running = {int(txid) for txid in match[3].split(",") if txid}
        if not (1 <= xmin <= xmax < 1 << 63) or any(not xmin <= txid < xmax for txid in running):
            raise ArgumentError(
                f"{text!r} is no snapshot; give what pg_current_snapshot() returned"
            )
        return cls.of(xmax, running)

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, self.running))}"

    def sees(self, txid: int) -> bool:
        """Whether the transaction had ended."""
        return txid < self.xmin or (txid < self.xmax and txid not in self.running)

    def covers(self, other: Snapshot) -> bool:
        """Whether it sees everything that the other one sees."""
        above = sum(1 for txid in other.running if txid >= self.xmax)
        return above == max(0, other.xmax - self.xmax) and not any(map(other.sees, self.running))

    def cut(self, txid: int) -> Snapshot:
        """What it sees of the transactions below this one."""
        xmax = min(txid, self.xmax)
        return Snapshot.of(xmax, {one for one in self.running if one < xmax})

    def union(self, other: Snapshot) -> Snapshot:
        """What either sees."""
        return Snapshot.of(
            max(self.xmax, other.xmax),
            {
                txid
                for txid in (*self.running, *other.running)
                if not (self.sees(txid) or other.sees(txid))
            },
        )
