"""Visibility and set operations of PostgreSQL snapshots.

The text form of a `pg_snapshot` is `xmin:xmax:xip`: all transactions below `xmax` are visible except those in the list
`xip`, which were in progress; all below `xmin` are visible. The rows visible to B and not to A are a fixed set, so a
snapshot can serve as an offset in a log.

A snapshot can also be computed. Cut at a transaction id, it sees only the lower ones: this divides a backlog into
micro-batches of whole transactions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from pgsluice.errors import ArgumentError

_FORM = re.compile(r"(\d+):(\d+):((?:\d+(?:,\d+)*)?)")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Set of visible transactions.

    Attributes:
        xmin: Lowest transaction id that is not visible.
        xmax: All visible transaction ids are lower than this.
        running: Transaction ids below `xmax` that are not visible, ascending.
    """

    xmin: int
    xmax: int
    running: tuple[int, ...] = ()

    @classmethod
    def of(cls, xmax: int, running: set[int]) -> Self:
        """Create the snapshot of all transactions below `xmax` except the running ones."""
        return cls(min(running, default=xmax), xmax, tuple(sorted(running)))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text form of `pg_snapshot`.

        Raises:
            ArgumentError: It is invalid.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise ArgumentError(
                f"{text!r} is not a snapshot; use a result of pg_current_snapshot()"
            )
        xmin, xmax = int(match[1]), int(match[2])
        running = {int(txid) for txid in match[3].split(",") if txid}
        if not (1 <= xmin <= xmax < 1 << 63) or any(not xmin <= txid < xmax for txid in running):
            raise ArgumentError(
                f"{text!r} is not a snapshot; use a result of pg_current_snapshot()"
            )
        return cls.of(xmax, running)

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, self.running))}"

    def sees(self, txid: int) -> bool:
        """True if the transaction is visible."""
        return txid < self.xmin or (txid < self.xmax and txid not in self.running)

    def covers(self, other: Snapshot) -> bool:
        """True if it sees all transactions that the other snapshot sees."""
        above = sum(1 for txid in other.running if txid >= self.xmax)
        return above == max(0, other.xmax - self.xmax) and not any(map(other.sees, self.running))

    def cut(self, txid: int) -> Snapshot:
        """Return the snapshot restricted to lower transaction ids."""
        xmax = min(txid, self.xmax)
        return Snapshot.of(xmax, {one for one in self.running if one < xmax})

    def union(self, other: Snapshot) -> Snapshot:
        """Return the snapshot of all transactions visible to either."""
        return Snapshot.of(
            max(self.xmax, other.xmax),
            {
                txid
                for txid in (*self.running, *other.running)
                if not (self.sees(txid) or other.sees(txid))
            },
        )
