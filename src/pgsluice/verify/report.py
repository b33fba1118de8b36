"""What a comparison found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

# missing: in PostgreSQL and not in the lake. extra: in the lake and not in PostgreSQL. doubled: more often in the lake.
# changed: in both, with other contents. type: a column that is not there, or that cannot hold the values of its column.
Kind = Literal["missing", "extra", "doubled", "changed", "type"]
KINDS: tuple[Kind, ...] = ("missing", "extra", "doubled", "changed", "type")

Row = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Difference:
    """One row, or for the kind `type` one column, that differs.

    Attributes:
        kind: In which way.
        key: The row's key, column by column; of a column its name alone.
        postgresql: Its values in PostgreSQL as text, of a changed row those that differ; None when it is not there.
            Of a column its type.
        lake: The same in the lake.
    """

    kind: Kind
    key: Row
    postgresql: Row | None
    lake: Row | None


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison.

    Attributes:
        rows: How many rows were read.
        only_here: Those among them that the other side need not have and has not.
        digest: A hash of all rows whatever their order; two sides with the same rows have the same.
    """

    rows: int
    only_here: int
    digest: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a comparison found.

    Attributes:
        what: What was compared, in words: `the archive of queue 'orders'`.
        lake: The table's folder, or its address.
        lake_version: The version of it that was read; of an Iceberg table the snapshot, -1 for none.
        postgresql: The rows of PostgreSQL.
        in_lake: The rows of the lake.
        counts: How many rows, and for the kind `type` columns, differ; 0 where none does.
        differences: The first of each kind by their keys.
        columns: The columns that were compared.
        ignored: Columns of the lake that PostgreSQL has not, or that were to be ignored.
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

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not any(self.counts.values())

    def __str__(self) -> str:
        """One line: what was compared, and how it ended."""
        sides = f"{self.postgresql.rows} rows in PostgreSQL, {self.in_lake.rows} in the lake"
        alone = [
            f"{side.only_here} only {where}, as they may be"
            for side, where in ((self.postgresql, "in PostgreSQL"), (self.in_lake, "in the lake"))
            if side.only_here
        ]
        found = [f"{count} {kind}" for kind, count in self.counts.items() if count]
        return f"{self.what}: {', '.join([sides, *alone])}: {', '.join(found) or 'no difference'}"

    def as_json(self) -> dict[str, Any]:
        """The report for machines."""
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
