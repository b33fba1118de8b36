"""Compare a PostgreSQL table with a lake table, row by row, with bounded memory."""

from __future__ import annotations

import bisect
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from pgsluice import connection
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import Call
from pgsluice.client.calls import verify as calls
from pgsluice.client.calls.samples import limit_statements
from pgsluice.errors import ConfigurationError, translate
from pgsluice.sessions import has_limits
from pgsluice.verify.lake import Lake, rows_of
from pgsluice.verify.lines import key_of, lines_of, order_of, shown, values_of, with_nested
from pgsluice.verify.report import KINDS, Difference, Kind, Report, Row, Side
from pgsluice.verify.tally import Line, Tally, compare, matching

# True if a row may be missing on the other side; takes its columns in COPY's text format.
MayBeAlone = Callable[[Sequence[bytes]], bool]
# The text form for comparing a PostgreSQL column with a type of the lake, or None if they are incompatible.
FormOf = Callable[[calls.StoredColumn, Any], str | None]


@dataclass(frozen=True)
class ComparedColumns:
    """Columns to compare and their text forms.

    Attributes:
        columns: Column names, key columns first.
        forms: Text form of each column.
        key: Number of key columns.
        nested: Type in the lake of each array and struct, by position.
        wrong: Columns that the lake lacks or stores with an incompatible type.
        ignored: Columns of the lake that are not compared.
    """

    columns: tuple[str, ...]
    forms: tuple[str, ...]
    key: int
    nested: Mapping[int, Any]
    wrong: tuple[Difference, ...]
    ignored: tuple[str, ...]

    @classmethod
    def of(
        cls,
        columns: Sequence[calls.StoredColumn],
        lake: Lake,
        key: Sequence[str],
        form_of: FormOf,
    ) -> ComparedColumns:
        """Match the columns of a table with those of the lake.

        Args:
            columns: PostgreSQL columns to compare.
            lake: May have more columns.
            key: Columns that identify a row; empty for all columns.
            form_of: Returns the text form for a pair of types.

        Raises:
            ConfigurationError: A key column is missing on one side, or its types are incompatible.
        """
        from pgsluice.lake.nested import is_nested

        types = lake.types
        given = {column.name: column for column in columns}
        forms: dict[str, str] = {}
        wrong = []
        for name in [*key, *(name for name in given if name not in key)]:
            column, lake_type = given.get(name), types.get(name)
            form = None if column is None or lake_type is None else form_of(column, lake_type)
            if form is not None:
                forms[name] = form
            else:
                wrong.append(_wrong(name, column, lake_type))
        for difference in wrong:
            if difference.key["column"] in key or not forms:
                raise ConfigurationError(
                    f"the rows cannot be compared: {_type_difference(difference)}; use another key or "
                    "lake table"
                )
        nested = {at: types[name] for at, name in enumerate(forms) if is_nested(types[name])}
        ignored = tuple(name for name in types if name not in given)
        keys = len(key) or len(forms)
        return cls(tuple(forms), tuple(forms.values()), keys, nested, tuple(wrong), ignored)


@dataclass(frozen=True)
class Comparison:
    """Comparison of a PostgreSQL table with a lake table.

    Attributes:
        what: Description for the report.
        database: A connection from `reading`.
        relation: Table in PostgreSQL, qualified and quoted.
        lake: Table in the lake.
        shape: Columns to compare.
        only_where_null: PostgreSQL column; only rows where it is null are compared.
        where: Lake column and its required value; other rows are skipped.
        postgresql_alone: True if a row of PostgreSQL may be missing in the lake.
        lake_alone: True if a row of the lake may be missing in PostgreSQL.
        skipped: Keys of rows that are not compared.
    """

    what: str
    database: psycopg.Connection[Any]
    relation: str
    lake: Lake
    shape: ComparedColumns
    only_where_null: str | None = None
    where: tuple[str, str | bool] | None = None
    postgresql_alone: MayBeAlone | None = None
    lake_alone: MayBeAlone | None = None
    skipped: frozenset[bytes] = frozenset()

    def run(self, *, show: int = 5) -> Report:
        """Run the comparison.

        Args:
            show: Maximum rows in the report per kind of difference, 0 or more.
        """
        with tempfile.TemporaryDirectory(prefix="pgsluice-verify-") as name:
            folders = Path(name, "postgresql"), Path(name, "lake")
            for folder in folders:
                folder.mkdir()
            postgresql, lake = Tally(folders[0]), Tally(folders[1])
            postgresql.add(self._postgresql_lines())
            lake.add(self._lake_lines())
            findings = compare(postgresql, lake)
        counts: dict[Kind, int] = {kind: findings.counts[kind] for kind in KINDS}
        counts["type"] = len(self.shape.wrong)
        kinds = {key: kind for kind in KINDS for key in findings.remembered[kind]}
        rows = self._first(kinds, show) if kinds and show else []
        return Report(
            what=self.what,
            lake=self.lake.name,
            lake_version=self.lake.version,
            postgresql=Side(postgresql.rows, findings.only_first, findings.digests[0]),
            in_lake=Side(lake.rows, findings.only_second, findings.digests[1]),
            counts=counts,
            differences=(*rows, *self.shape.wrong),
            columns=self.shape.columns,
            ignored=self.shape.ignored,
            skipped=len(self.skipped),
        )

    def _postgresql_lines(self) -> Iterator[Line]:
        shape = self.shape
        call = calls.canonical_copy(self.relation, shape.columns, shape.forms, self.only_where_null)
        statement = fetch(self.database, call)
        try:
            with self.database.cursor() as cursor, cursor.copy(statement.encode()) as copy:
                rows: Iterator[bytes] = (bytes(row)[:-1] for row in copy)
                if shape.nested:
                    rows = with_nested(rows, shape.nested)
                yield from self._compared(_keyed(rows, shape.key, self.postgresql_alone))
        except psycopg.Error as error:
            raise translate(error) from error

    def _lake_lines(self) -> Iterator[Line]:
        shape = self.shape
        for batch in rows_of(self.lake, shape.columns, where=self.where):
            rows = lines_of(batch, shape.columns, shape.forms)
            yield from self._compared(_keyed(rows, shape.key, self.lake_alone))

    def _compared(self, lines: Iterator[Line]) -> Iterator[Line]:
        return (line for line in lines if line[0] not in self.skipped)

    def _first(self, kinds: dict[bytes, Kind], show: int) -> list[Difference]:
        """Read both sides again for the first rows of each kind."""
        firsts = {kind: _Firsts(show) for kind in KINDS}
        for side, lines in (("postgresql", self._postgresql_lines()), ("lake", self._lake_lines())):
            for kind, known, (_, line, _) in matching(lines, kinds):
                values = values_of(line)
                order = order_of(values[: self.shape.key])
                firsts[kind].offer(known, order, side, values)
        return [self._difference(kind, found) for kind in KINDS for found in firsts[kind].found()]

    def _difference(self, kind: Kind, found: _Found) -> Difference:
        columns, forms, key = self.shape.columns, self.shape.forms, self.shape.key
        postgresql, lake = found.postgresql, found.lake
        if kind == "changed" and postgresql and lake:
            differing = [i for i in range(key, len(columns)) if postgresql[0][i] != lake[0][i]]
        else:
            differing = list(range(key, len(columns)))
        some = (postgresql or lake)[0]

        def row(values: Sequence[str | None], which: Sequence[int]) -> Row:
            return shown(
                [columns[i] for i in which], [forms[i] for i in which], [values[i] for i in which]
            )

        return Difference(
            kind,
            row(some, range(key)),
            row(postgresql[0], differing) if postgresql else None,
            row(lake[0], differing) if lake else None,
        )


@dataclass
class _Found:
    """Rows of one key on both sides."""

    postgresql: list[list[str | None]] = field(default_factory=list)
    lake: list[list[str | None]] = field(default_factory=list)


class _Firsts:
    """Rows of the N lowest keys."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._order: list[tuple[Any, bytes]] = []
        self._found: dict[bytes, _Found] = {}

    def offer(self, known: bytes, order: Any, side: str, values: list[str | None]) -> None:
        if known not in self._found:
            if len(self._order) == self._most and (order, known) > self._order[-1]:
                return
            bisect.insort(self._order, (order, known))
            self._found[known] = _Found()
            if len(self._order) > self._most:
                del self._found[self._order.pop()[1]]
                if known not in self._found:
                    return
        found = self._found[known]
        (found.postgresql if side == "postgresql" else found.lake).append(values)

    def found(self) -> list[_Found]:
        return [self._found[known] for _, known in self._order]


@contextmanager
def reading(dsn: str | None, *, in_one_snapshot: bool = False) -> Iterator[psycopg.Connection[Any]]:
    """Connect for one comparison, in one read-only transaction; `in_one_snapshot`, all its reads have one snapshot."""
    target = connection.resolve(dsn)
    with connection.connect(target, application_name="pgsluice verify") as database:
        # In read committed mode each statement takes a new snapshot, so callers open the lake table first.
        database.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        if in_one_snapshot:
            database.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        database.read_only = True
        database.reads_text = True
        if has_limits(database):
            fetch(database, limit_statements(0))
        yield database


def fetch(database: psycopg.Connection[Any], call: Call[Any]) -> Any:
    """Run one call."""
    return Runner(database).run(call)


def _keyed(rows: Any, key: int, may_be_alone: MayBeAlone | None) -> Iterator[Line]:
    if may_be_alone is None:
        for row in rows:
            yield key_of(row, key), row, False
        return
    for row in rows:
        yield key_of(row, key), row, may_be_alone(row.split(b"\t"))


def _wrong(name: str, column: calls.StoredColumn | None, lake_type: Any) -> Difference:
    return Difference(
        "type",
        {"column": name},
        None if column is None else {"type": column.type_name},
        None if lake_type is None else {"type": str(lake_type)},
    )


def _type_difference(wrong: Difference) -> str:
    sides = ((wrong.postgresql, "PostgreSQL"), (wrong.lake, "the lake"))
    types = (f"{side['type'] if side else 'missing'} in {where}" for side, where in sides)
    return f"column {wrong.key['column']!r} is {' and '.join(types)}"
