"""Apply events to the current-state tables of all changed tables."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from pgsluice.errors import ChangeError
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.current_tables import Tables
from pgsluice.lake.names import TableName
from pgsluice.lake.storage import Folder, make_folder, remove_folder
from pgsluice.lake.tables import drop_all_staged, drop_staged
from pgsluice.pipelines.current_state.bad_values import nulled, store_rejects
from pgsluice.pipelines.current_state.buckets import rewrite
from pgsluice.pipelines.current_state.collapse import Collapsed, collapse
from pgsluice.pipelines.current_state.failures import SCRATCH
from pgsluice.pipelines.current_state.merge import forget_deleted, merge
from pgsluice.pipelines.current_state.overwrite import replace_table
from pgsluice.pipelines.current_state.parking import Parking
from pgsluice.pipelines.current_state.pieces import (
    PART_ROWS,
    Collapsing,
    Piece,
    ReadingPlan,
    Tasks,
    Update,
    collapse_files,
    collapsed,
    effects,
)
from pgsluice.pipelines.current_state.reading import (
    Event,
    Sources,
    marker_of,
    partition_marker_of,
)
from pgsluice.pipelines.current_state.shaping import Shaping
from pgsluice.pipelines.current_state.table import CurrentTable

_COMMITS_BETWEEN_FORGETTING = 100  # removing tombstones reads the whole table
# delta-rs holds the changes of a merge several times: 1,000,000 rows of 100 bytes took 600 MB.
_ROWS_MERGED_MAX = 500_000
_BYTES_MERGED_MAX = 100 << 20


def apply(table: CurrentTable, pieces: Sequence[Piece], update: Update) -> bool:
    """Apply changes to a current-state table in one commit, idempotent by app id and version.

    The driver merges them; in a table with buckets, and if there are many, tasks rewrite the files.

    Args:
        table: Must have all columns of the changes.
        pieces: The changes, collapsed by `collapse_files`; one or more.
        update: The update.

    Returns:
        False if this or a later version was already applied; then nothing is done.

    Raises:
        ChangeError: A value does not fit its column.
        SluiceError: All attempts conflicted with other commits.
    """
    app_id, version = update.app_id, update.version
    rewrites = bool(table.bucket_count) or _are_many(pieces)
    changes = None if rewrites else collapsed(pieces)
    if changes is not None and update.rejects is not None:
        rows, found = nulled(changes.rows, table.name, table.key_columns, table.schema)
        store_rejects(update.rejects, table.name, found, app_id=app_id, version=version)
        changes = replace(changes, rows=rows)

    def commit(newest: CurrentTable) -> None:
        if changes is not None:
            merge(newest, changes, app_id=app_id, version=version)
        else:
            rewrite(newest, pieces, update)

    committed = table.commit_once(commit, app_id=app_id, version=version)
    if committed is None:
        return False
    # A rewritten part has no expired tombstones, and a table without a key has no tombstones.
    keeps_traces = not rewrites and bool(table.key)
    if keeps_traces and committed.stored.number % _COMMITS_BETWEEN_FORGETTING == 0:
        forget_deleted(committed, kept_h=update.deleted_kept_h)
    return True


@dataclass(frozen=True)
class CurrentStates:
    """The current-state tables of one log.

    Attributes:
        lake: Where they are.
        shaping: Their shapes.
        tables: Tables to maintain; None for all.
        buckets: Number of buckets of each table that executors maintain.
        deleted_kept_h: Minimum age of tombstones in hours before removal.
        parking: Their states.
        rejects: Address of the table that receives values that do not fit, which become null; None to keep such values,
            whose table then cannot be applied.
    """

    lake: Tables
    shaping: Shaping
    tables: frozenset[TableName] | None
    buckets: Mapping[TableName, int]
    deleted_kept_h: float
    parking: Parking
    rejects: Folder | IcebergAddress | None = None

    def apply(
        self,
        files: Mapping[int, Sequence[Folder]],
        sources: Sources,
        *,
        markers: Sequence[Event] = (),
        row_count: int,
        app_id: str,
        tasks: Tasks[Any, Any],
    ) -> dict[TableName | str, int]:
        """Apply the changes among the events of micro-batches, once per table and micro-batch; park unfit tables.

        Args:
            files: Parquet files with the events, by micro-batch. Earlier ones may be repeated.
            sources: Tables with changes among them.
            markers: Markers of snapshots and partitions among them, in order.
            row_count: Number of events.
            app_id: Id of the writing application.
            tasks: Runs the tasks.

        Returns:
            The number of rows that each of `sources` had before.

        Raises:
            ChangeError: A change cannot be read or does not fit, and such tables are not to be parked.
        """
        self.parking.begin_rebuilds(self._discard)
        version = max(files)
        joined = self.parking.resolved(sources.joined)
        named = sorted(filter(self.selects, {*sources.shapes, *joined.values()}))
        names = [name for name in named if not self.parking.is_parked(name)]
        # Changes under a name that is not selected may be those of a selected table that was renamed for a while.
        others = [n for n in sources.shapes.keys() - set(names) if any(sources.shapes[n])]
        shapes = self.shaping.shapes_of(sources, [*names, *others])
        self.parking.record_names(shapes)
        plans: dict[TableName, ReadingPlan] = {}
        applied: dict[TableName, int] = {}
        rows: dict[TableName | str, int] = {}
        for name in names:
            with self.parking.guard(name):
                table = CurrentTable.open(self._home(name), name)
                if table is None:
                    self.parking.require_table(name)
                elif table.has_applied(app_id, version):
                    continue
                row_count_before = 0 if table is None else _row_count(table)
                applied[name] = -1 if table is None else table.last_applied(app_id)
                plans[name] = self.shaping.adopt(name, table, shapes[name])
                rows[name] = row_count_before
        rows |= {text: rows[name] for text, name in joined.items() if name in rows}
        if plans:
            scratch = self.lake.state_folder / SCRATCH / str(uuid.uuid4())
            make_folder(scratch)
            try:
                parts = 1 + row_count // PART_ROWS
                how = Collapsing(plans, applied, scratch, self.buckets, parts, joined)
                update = Update(app_id, version, scratch, tasks, self.deleted_kept_h, self.rejects)
                for name, pieces in sorted(collapse_files(files, how, tasks).items()):
                    if not self.parking.is_parked(name):
                        with self.parking.guard(name):
                            self._apply(name, pieces, plans[name].kinds, update)
            finally:
                remove_folder(scratch)
        snapshots = [
            e
            for e in markers
            if (marker := marker_of(e)) is not None and self.selects(marker.table)
        ]
        complete = self.parking.record_snapshots(snapshots, partial(self._finish, app_id))
        partitions = [m for m in map(partition_marker_of, markers) if m and self.selects(m.table)]
        kept = self.parking.record_partitions(partitions)
        for name in sorted({*complete, *kept}):
            with self.parking.guard(name):
                if name in complete:
                    self._discard(name)
                table = CurrentTable.open(self.lake, name)
                if table is not None:
                    table.describe(self.parking.description(name))
        self.parking.delete_former_partitions()
        return rows

    def clean(self) -> None:
        """Remove files that a crash left, and begin requested rebuilds; no other process may apply changes."""
        remove_folder(self.lake.state_folder / SCRATCH)
        if not self.parking.rebuilding():
            drop_all_staged(self.lake)
        self.parking.begin_rebuilds(self._discard)

    def selects(self, name: TableName) -> bool:
        """True if this table has a current state."""
        return self.tables is None or name in self.tables

    def _apply(
        self,
        name: TableName,
        pieces: Sequence[Piece],
        kinds: Mapping[str, pa.DataType],
        update: Update,
    ) -> None:
        table = CurrentTable.open(self._home(name), name)
        if table is not None and table.has_applied(update.app_id, update.version):
            return
        portions = effects(pieces)
        effect = collapse(portions)
        # Truncations do not show the key; deletes do, and may have no columns but those of the key.
        if table is not None and any(portion.key is not None for portion in portions):
            table.require_key(effect.key)
        table = self._prepared(name, table, effect, kinds)
        if table is None:
            return
        apply(table, pieces, update)
        self.parking.record_created(name)

    def _home(self, name: TableName) -> Tables:
        """Return where the table is that changes are applied to."""
        return self.lake.staged() if name in self.parking.rebuilding() else self.lake

    def _discard(self, name: TableName) -> None:
        drop_staged(self.lake, name)

    def _finish(self, app_id: str, name: TableName) -> None:
        """Replace a table by the staged one."""
        new = CurrentTable.open(self.lake.staged(), name)
        replace_table(self.lake, name, new, app_id=app_id, properties=self.parking.properties(name))

    def _prepared(
        self,
        name: TableName,
        table: CurrentTable | None,
        effect: Collapsed,
        kinds: Mapping[str, pa.DataType],
    ) -> CurrentTable | None:
        """Return the table with the columns of changes; None if it does not exist and its columns are unknown."""
        columns, bucket_count = effect.columns, self.buckets.get(name, 0)
        if table is None and not columns:
            return None
        if table is None:
            in_order = [c for c in kinds if c in columns] + [c for c in columns if c not in kinds]
            column_kinds = {column: kinds.get(column, pa.string()) for column in in_order}
            return CurrentTable.create(
                self._home(name),
                name,
                effect.key,
                column_kinds,
                bucket_count=bucket_count,
                properties=self.parking.properties(name),
                description=self.parking.description(name),
            )
        if table.bucket_count != bucket_count:
            raise ChangeError(
                f"the current-state table of {name} has {table.bucket_count or 'no'} buckets, but buckets is "
                f"{bucket_count or 'not set'}; set the required number, and rebuild the table"
            )
        new = [column for column in columns if column not in table.kinds]
        if new:
            table.add_columns({column: kinds.get(column, pa.string()) for column in new})
            table = table.again()
        return table


def _row_count(table: CurrentTable) -> int:
    return sum(file.row_count for file in table.stored.files())


def _are_many(pieces: Sequence[Piece]) -> bool:
    """True if the driver cannot hold the changes."""
    return (
        sum(piece.row_count for piece in pieces) > _ROWS_MERGED_MAX
        or sum(piece.size_bytes for piece in pieces) > _BYTES_MERGED_MAX
    )
