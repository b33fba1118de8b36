"""Compare a PostgreSQL table with its current-state table in the lake."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from pgsluice import connection
from pgsluice.client.calls import verify as calls
from pgsluice.errors import ConfigurationError
from pgsluice.lake.address import IcebergAddress, parse
from pgsluice.lake.current_tables import OWN_COLUMNS, Tables, TableState, captured_column, state_at
from pgsluice.lake.properties import property_of
from pgsluice.verify.at_tick import await_applied, await_lake, changed_keys, events_after
from pgsluice.verify.comparing import ComparedColumns, Comparison, fetch, reading
from pgsluice.verify.forms import captured_form
from pgsluice.verify.lake import Lake, open_lake, rows_of
from pgsluice.verify.report import Difference, Report

if TYPE_CHECKING:
    import pyarrow as pa

    from pgsluice.lake.tables import Place


def verify_current(
    table: str,
    lake: str | Path,
    *,
    key: Sequence[str] | None = None,
    ignore: Collection[str] = (),
    deleted: str = "_deleted",
    at_tick: str | None = None,
    consumer: str | None = None,
    deadline_s: float = 1200.0,
    dsn: str | None = None,
    show: int = 5,
) -> Report:
    """Compare a table with its current-state table in the lake.

    Without `at_tick`, neither table may change: stop writes to the PostgreSQL table, and let the lake catch up. With
    it, writers and the pipeline may continue: PostgreSQL is read in one snapshot, and rows that changed since are not
    compared. It holds that snapshot while it reads. Tombstones must be kept longer than that.

    Args:
        table: An existing table, schema-qualified or on the session's search_path.
        lake: Folder of the current-state table, or `iceberg:catalogue/namespace.table`.
        key: Columns that identify a row; None for the primary key, or all columns without one.
        ignore: Columns of the table that may be missing in the lake.
        deleted: Boolean column of the lake that marks tombstones; if it does not exist, all rows are compared.
        at_tick: Event log of the pipeline, which must run. The table needs a key.
        consumer: Consumer of the pipeline, with `at_tick`; None: the one recorded in the lake's table `events`.
        deadline_s: Maximum wait in seconds for the pipeline to write the events of the snapshot, and again to update
            the current-state tables, which by default takes up to 15 minutes.
        dsn: Connection string; None to resolve it as `pgsluice.connection` does.
        show: Maximum rows in the report per kind of difference, 0 or more.

    Raises:
        ConfigurationError: The table does not exist in PostgreSQL or in the lake, or a key column is missing.
        LogStateError: The table was truncated meanwhile, or the log no longer keeps the later events.
        MissingExtraError: A package required to read the lake is not installed.
        SluiceError: The pipeline did not write the events of the snapshot, or update the tables, within the deadline.
    """
    lake_table, later = _Captured(open_lake(lake), deleted), frozenset[int]()
    state = _state(parse(lake))
    with reading(dsn, in_one_snapshot=at_tick is not None) as database:
        if at_tick is not None:
            snapshot = fetch(database, calls.current_snapshot())
            with connection.connect(connection.resolve(dsn), autocommit=True) as observer:
                name = consumer or _recorded_consumer(lake)
                await_lake(observer, at_tick, name, snapshot, deadline_s=deadline_s)
                await_applied(_tables_around(parse(lake)), deadline_s=deadline_s)
                lake_table = _Captured(open_lake(lake), deleted)
                later = events_after(observer, at_tick, snapshot)
        found = fetch(database, calls.find_table(table))
        if not found:
            raise ConfigurationError(f"table {table!r} does not exist; name it as schema.table")
        fetch(database, calls.steady_session())
        columns = fetch(database, calls.canonical_columns(found[0]))
        if key is None:
            keyed = sorted((c.key_position, c.name) for c in columns if c.key_position)
            key = [name for _, name in keyed]
        form = partial(captured_form, are_arrays_text=_is_of_pgq(state))
        shape = ComparedColumns.of(
            [c for c in columns if c.name not in ignore], lake_table, list(key), form
        )
        if at_tick is not None and not key:
            raise ConfigurationError(
                f"table {table!r} has no key to identify its changed rows; stop writers, and verify without at_tick"
            )
        with_tombstones = replace(lake_table, deleted="")
        report = Comparison(
            what=f"the current state of table {found[0]}",
            database=database,
            relation=found[0],
            lake=lake_table,
            shape=shape,
            skipped=frozenset() if at_tick is None else changed_keys(with_tombstones, shape, later),
        ).run(show=show)
    if state is None or state.parked is None:
        return report
    parked = Difference("parked", {"table": str(state.name)}, None, {"reason": state.parked})
    return replace(
        report,
        counts={**report.counts, "parked": 1},
        differences=(*report.differences, parked),
    )


@dataclass(frozen=True)
class _Captured:
    """The rows of a current-state table without tombstones, with the column names of PostgreSQL.

    Attributes:
        lake: The table.
        deleted: Its column that marks tombstones, if it has one; empty to read them, too.
    """

    lake: Lake
    deleted: str

    @property
    def name(self) -> str:
        return self.lake.name

    @property
    def version(self) -> int:
        return self.lake.version

    @cached_property
    def types(self) -> Mapping[str, pa.DataType]:
        return {name: self.lake.types[lake_name] for name, lake_name in self._names.items()}

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        names = [self._names[column] for column in columns]
        where = (self.deleted, False) if self.deleted in self.lake.types else None
        for batch in rows_of(self.lake, names, where=where):
            arrays = [batch.column(name) for name in names]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    @cached_property
    def _names(self) -> dict[str, str]:
        """The columns in the lake by their names in PostgreSQL."""
        names = {name: name for name in self.lake.types if name in OWN_COLUMNS}
        # A captured column that has the name of one of ours comes last.
        others = {captured_column(name): name for name in self.lake.types if name not in names}
        return names | others


def _state(place: Place) -> TableState | None:
    """Return the state of a current-state table; None if the pipeline has not stored one."""
    try:
        return state_at(_tables_around(place), place)
    except (
        ConfigurationError
    ):  # the table of another tool, in a catalogue without a location for ours
        return None


def _is_of_pgq(state: TableState | None) -> bool:
    """True if PgQ's triggers capture the table: their events name no shape."""
    return state is not None and state.shape is not None and not state.shape["order"]


def _tables_around(place: Place) -> Tables:
    """Return the current-state tables of the lake with a table at this address."""
    from pgsluice.lake.tables import tables_in

    if isinstance(place, IcebergAddress):
        return tables_in(str(place.namespace))
    return Tables(place.parent.parent, place.parent)


def _recorded_consumer(lake: str | Path) -> str:
    events = _tables_around(parse(lake)).events
    found = property_of(events, "pgsluice.consumer")
    if found is None:
        raise ConfigurationError(
            f"the lake table {events} records no consumer; give the consumer of the pipeline"
        )
    return found
