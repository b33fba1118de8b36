"""Give current-state tables the shape of their events: one rewrite for renamed, dropped and widened columns.

The state of the table names the new shape before the commit that makes it, and the commit records the number that the
state gives it. So after a crash between the two, the next update knows which of both shapes the rows have.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from pgsluice.client.calls import spark as calls
from pgsluice.errors import SchemaChangeError
from pgsluice.lake.current_tables import lake_column
from pgsluice.lake.names import ColumnName, TableName
from pgsluice.lake.nested import is_nested
from pgsluice.lake.shapes import Shape, Transition, transition
from pgsluice.pipelines.current_state.columns import lake_type
from pgsluice.pipelines.current_state.evolution import reshape, wider_types
from pgsluice.pipelines.current_state.parking import Parking
from pgsluice.pipelines.current_state.pieces import ReadingPlan
from pgsluice.pipelines.current_state.reading import Sources
from pgsluice.pipelines.current_state.table import CurrentTable
from pgsluice.spark.access import Access, driver_connection, run

# The commit that reshapes a table records its number as the version of this application id.
_RESHAPED = "pgsluice:reshaped"


@dataclass(frozen=True)
class Shaping:
    """The shapes of a lake's tables and of their events.

    Attributes:
        access: Access to the source database.
        log: Event log of the lake.
        parking: States of the tables.
        column_types: Lake types of columns that do not have that of `lake_type`.
    """

    access: Access
    log: str
    parking: Parking
    column_types: Mapping[ColumnName, pa.DataType]
    _known: dict[str, Shape] = field(default_factory=dict)  # of the last events

    def shapes_of(self, sources: Sources, names: Sequence[TableName]) -> dict[TableName, Shapes]:
        """Return the shapes of the events of these tables in the order of the log.

        A table whose events name none, as those of PgQ's triggers, has its current shape.
        """
        by_id, current = self._read(sources, names)
        found: dict[TableName, Shapes] = {}
        for name in names:
            firsts = sources.shapes.get(name, {}).items()
            known = [(seq, by_id[one]) for one, seq in firsts if one in by_id]
            known.sort(key=lambda one: one[1].order)
            if not known and name in current:
                known = [(0, current[name])]
            found[name] = known
        return found

    def _read(
        self, sources: Sources, names: Sequence[TableName]
    ) -> tuple[dict[str, Shape], dict[TableName, Shape]]:
        """Return the shapes that events name by id, and the current shapes if some events name none."""
        named = {shape for name in names for shape in sources.shapes.get(name, ()) if shape}
        found = {shape: self._known[shape] for shape in named & self._known.keys()}
        current: dict[TableName, Shape] = {}
        unknown = sorted(named - found.keys())
        unshaped = any(not any(sources.shapes.get(name, ())) for name in names)
        if unknown or unshaped:
            dsn = self.access.conninfo()
            with driver_connection(self.access, autocommit=True) as database:
                stored = run(database, calls.captured_shapes(unknown), dsn) if unknown else []
                now = run(database, calls.list_shapes(self.log), dsn) if unshaped else []
            # The first that was stored, as its storage is that of the first rows.
            for row in stored:
                found.setdefault(row[0], Shape.of(*row))
            current = {TableName(schema, table): Shape.of(*facts) for schema, table, *facts in now}
        self._known.clear()
        self._known.update(found)
        return found, current

    def adopt(self, name: TableName, table: CurrentTable | None, shapes: Shapes) -> ReadingPlan:
        """Give a table the newest shape of its events; return how they are read.

        Args:
            name: The table.
            table: The table in the lake; None if it does not exist.
            shapes: From `shapes_of`.

        Raises:
            SchemaChangeError: Rows in the lake may differ from those in PostgreSQL without an event, or the lake cannot
                hold the new shape.
        """
        if table is not None:
            self._recover(name, table)
        was = self._shape_of(name) if table is not None else None
        now, filled = was, {}
        for seq, shape in shapes:
            later = shape if now is None else shape.filled(now)
            if now is not None and later.order < now.order:
                # Of a micro-batch that the table already has, or seen by transactions with a new snapshot only.
                filled[shape.id], now = shape, now.filled(shape)
                continue
            if now is not None:
                change = transition(now, later)
                if change.harm and table is None:
                    self.parking.void_snapshots(name, seq)
                elif change.harm:
                    raise SchemaChangeError(f"{change.harm}; rebuild the table")
            filled[shape.id] = now = later
        if now is None:
            return ReadingPlan({} if table is None else table.kinds)
        kinds = self.kinds_of(name, now)
        if table is None:
            self.parking.record_shape(name, now)
        else:
            table = _with_columns(self._reshaped(name, table, was or now, now, kinds), now, kinds)
            kinds = kinds | table.kinds
        names = {one: shape.names_in(now) for one, shape in filled.items()}
        changed = {
            one: found for one, found in names.items() if any(a != b for a, b in found.items())
        }
        return ReadingPlan(kinds, changed, _documents(now.types, kinds))

    def kinds_of(self, name: TableName, shape: Shape) -> dict[str, pa.DataType]:
        """Return the lake types of the columns of a shape."""
        return {
            column: self.column_types.get(ColumnName(name, column), lake_type(kind))
            for column, kind in shape.types.items()
        }

    def _shape_of(self, name: TableName) -> Shape | None:
        stored = self.parking.state(name).shape
        return None if stored is None else Shape.from_json(stored)

    def _recover(self, name: TableName, table: CurrentTable) -> None:
        """Record the shape of a table if a crash interrupted its change after the commit; forget it before."""
        begun = self.parking.state(name).reshaping
        if begun is None:
            return
        if table.stored.last_version(_RESHAPED) == begun["number"]:
            self.parking.record_shape(name, Shape.from_json(begun["shape"]))
        else:
            self.parking.record_reshaping(name, None)

    def _reshaped(
        self,
        name: TableName,
        table: CurrentTable,
        was: Shape,
        now: Shape,
        kinds: Mapping[str, pa.DataType],
    ) -> CurrentTable:
        change = transition(was, now)
        names = was.names_in(now)
        _require_identity(table, change)
        unlimited = [column for column, kind in now.types.items() if kind == "numeric"]
        existing = {names.get(c, c): kind for c, kind in table.kinds.items()}
        kept = {column: kind for column, kind in existing.items() if column is not None}
        wider = wider_types(
            name, kept, table.key, kinds, numeric=unlimited, rewritten=change.rewritten
        )
        fields = {
            column: (lake_column(now_named), wider.get(now_named, kind))
            for column, kind in table.kinds.items()
            if (now_named := names.get(column, column)) is not None
        }
        if not (change.renamed or change.dropped or wider):
            self.parking.record_shape(name, now)
            return table
        number = time.time_ns() // 1_000_000
        self.parking.record_reshaping(name, {"number": number, "shape": now.to_json()})
        table = reshape(table, fields, {_RESHAPED: number})
        self.parking.record_shape(name, now)
        return table


# The shapes of a table's events, each with the id of its first event.
Shapes = Sequence[tuple[int, Shape]]


def _with_columns(
    table: CurrentTable, shape: Shape, kinds: Mapping[str, pa.DataType]
) -> CurrentTable:
    """Return a table after adding the columns of a shape that it lacks, also those that no event has."""
    # Triggers of PgQ may leave columns out of their events.
    missing = [name for name in shape.types if name not in table.kinds] if shape.order else []
    if not missing:
        return table
    table.add_columns({name: kinds[name] for name in missing})
    return table.again()


def _require_identity(table: CurrentTable, change: Transition) -> None:
    """Raise if rows cannot be found in the new shape.

    Raises:
        SchemaChangeError: A column of the key is renamed or dropped; without a key, rows are found by all their
            columns.
    """
    moved = [*change.renamed, *change.dropped]
    lost = [column for column in moved if not table.key or column in table.key]
    if lost:
        raise SchemaChangeError(
            f"{table.name} finds its rows by column {lost[0]}, which was renamed or dropped; rebuild the table"
        )


def _documents(types: Mapping[str, str], kinds: Mapping[str, pa.DataType]) -> frozenset[str]:
    """Return the columns whose values stay JSON text."""
    return frozenset(
        name
        for name, kind in types.items()
        if kind in ("json", "jsonb")
        and (pa.types.is_string(lake_type := kinds.get(name, pa.string())) or is_nested(lake_type))
    )
