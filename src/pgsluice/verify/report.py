"""Report of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

# missing: only in PostgreSQL. extra: only in the lake. doubled: duplicated in the lake. changed: in both, with
# different values. type: a column that the lake lacks, or stores with an incompatible type. parked: no changes are
# applied to the table.
Kind = Literal["missing", "extra", "doubled", "changed", "type", "parked"]
KINDS: tuple[Kind, ...] = ("missing", "extra", "doubled", "changed", "type", "parked")

Row = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference in one row, or for the kind `type` in one column, for `parked` of the table.

    Attributes:
        kind: Kind of difference.
        key: Key columns of the row, or the name of the column or table.
        postgresql: Values in PostgreSQL as text, for a changed row only those that differ, or the type of the column;
            None if missing.
        lake: The same for the lake; for a parked table the reason.
    """

    kind: Kind
    key: Row
    postgresql: Row | None
    lake: Row | None


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison.

    Attributes:
        rows: Number of rows read.
        only_here: Number of rows that are permitted to be, and are, missing on the other side.
        digest: Order-independent hash of all rows; equal for two sides with the same rows.
    """

    rows: int
    only_here: int
    digest: str


@dataclass(frozen=True, slots=True)
class Report:
    """Result of a comparison.

    Attributes:
        what: Description of the compared data: `the archive of queue 'orders'`.
        lake: Folder or address of the lake table.
        lake_version: Version of the lake table; for Iceberg the snapshot id, -1 without a snapshot.
        postgresql: Totals of PostgreSQL.
        in_lake: Totals of the lake.
        counts: Number of differing rows, or columns for the kind `type`, per kind; 0 for none.
        differences: First differences of each kind, in key order.
        columns: Compared columns.
        ignored: Columns of the lake that PostgreSQL lacks or that the caller excluded.
        skipped: Number of keys not compared, as their rows changed meanwhile.
    """

    what: str
    lake: str
    lake_version: int
    postgresql: Side
    in_lake: Side
    counts: Mapping[Kind, int]
    differences: Sequence[Difference]
    columns: Sequence[str]
    ignored: Sequence[str] = field(default=())
    skipped: int = 0

    @property
    def equal(self) -> bool:
        """True if there is no difference."""
        return not any(self.counts.values())

    def __str__(self) -> str:
        """Return a one-line summary."""
        sides = f"{self.postgresql.rows} rows in PostgreSQL, {self.in_lake.rows} in the lake"
        alone = [
            f"{side.only_here} only {where}, as permitted"
            for side, where in ((self.postgresql, "in PostgreSQL"), (self.in_lake, "in the lake"))
            if side.only_here
        ]
        if self.skipped:
            alone.append(f"{self.skipped} not compared, as they changed meanwhile")
        found = [f"{count} {kind}" for kind, count in self.counts.items() if count]
        return f"{self.what}: {', '.join([sides, *alone])}: {', '.join(found) or 'no difference'}"

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON-serialisable data."""
        return {
            "what": self.what,
            "lake": self.lake,
            "lake_version": self.lake_version,
            "equal": self.equal,
            "counts": dict(self.counts),
            "postgresql": _side(self.postgresql),
            "in_lake": _side(self.in_lake),
            "columns": list(self.columns),
            "ignored": list(self.ignored),
            "skipped": self.skipped,
            "differences": [
                {
                    "kind": difference.kind,
                    "key": dict(difference.key),
                    "postgresql": _row(difference.postgresql),
                    "lake": _row(difference.lake),
                }
                for difference in self.differences
            ],
        }


def _side(side: Side) -> dict[str, Any]:
    return {"rows": side.rows, "only_here": side.only_here, "digest": side.digest}


def _row(row: Row | None) -> dict[str, str | None] | None:
    return None if row is None else dict(row)
