"""One micro-batch of events, applied to the current state of every table that it changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from pgsluice.client.calls import spark as calls
from pgsluice.errors import ConfigurationError
from pgsluice.pipelines.current_state.buckets import apply_cells, summary_of, to_cells
from pgsluice.pipelines.current_state.collapse import collapse
from pgsluice.pipelines.current_state.columns import lake_type
from pgsluice.pipelines.current_state.envelope import Change
from pgsluice.pipelines.current_state.merge import forget_deleted, merge
from pgsluice.pipelines.current_state.reading import EXPRESSIONS, by_table, changes_of
from pgsluice.pipelines.current_state.table import CurrentTable
from pgsluice.spark.access import Access, driver_connection, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DELETED_KEPT_H = 168.0
_COMMITS_BETWEEN_FORGETTING = 100  # it reads the whole table


@dataclass(frozen=True)
class CurrentStates:
    """The current states of all tables of one log.

    Attributes:
        lake: Their folder.
        access: Where the tables are, to ask for the types of their columns.
        tables: Only these have one, by `schema.table`; None for all.
        buckets: Those that executors apply changes to, and how many buckets each has.
        text_columns: Columns that are text here whatever they are there, as `schema.table.column`.
        deleted_kept_h: For how many hours the traces of deleted rows stay, at least.
    """

    lake: Path
    access: Access
    tables: frozenset[str] | None = None
    buckets: Mapping[str, int] = field(default_factory=dict)
    text_columns: frozenset[str] = frozenset()
    deleted_kept_h: float = DELETED_KEPT_H

    def apply(self, events: DataFrame, *, app_id: str, version: int) -> None:
        """Apply the changes among these events, to each table once for each version.

        Raises:
            SluiceError: A change cannot be read or does not fit; see `collapse`, `columns` and `merge`.
        """
        events = events.selectExpr(*EXPRESSIONS).where("ev_extra1 is not null")
        for name, bucket_count in self.buckets.items():
            if self._wants(name):
                self._apply_by_executors(name, bucket_count, events, app_id, version)
        rest = events
        if self.buckets:
            rest = events.where(~events["ev_extra1"].isin(list(self.buckets)))
        columns = [column.to_pylist() for column in rest.toArrow().columns]
        changed = by_table(changes_of(zip(*columns, strict=True), self._wants))
        for name, changes in sorted(changed.items()):
            self._apply_by_driver(name, changes, app_id, version)

    def _wants(self, name: str) -> bool:
        return self.tables is None or name in self.tables

    def _apply_by_driver(
        self, name: str, changes: Sequence[Change], app_id: str, version: int
    ) -> None:
        table = CurrentTable.open(self.lake, name)
        if table is not None and table.has_applied(app_id, version):
            return
        known = table.kinds if table else self._kinds(name)
        collapsed = collapse(changes, known)
        table = self._prepared(name, table, collapsed.key, collapsed.columns, bucket_count=0)
        if table is None:
            return
        merge(table, collapsed, app_id=app_id, version=version)
        table = table.again()
        if table.key and table.delta.version() % _COMMITS_BETWEEN_FORGETTING == 0:
            forget_deleted(table, kept_h=self.deleted_kept_h)

    def _apply_by_executors(
        self, name: str, bucket_count: int, events: DataFrame, app_id: str, version: int
    ) -> None:
        table = CurrentTable.open(self.lake, name)
        if table is not None and table.has_applied(app_id, version):
            return
        mine = events.where(events["ev_extra1"] == name).rdd
        known = table.kinds if table else self._kinds(name)
        cells = to_cells(mine, name, known, bucket_count).persist()
        try:
            summary = summary_of(cells)
            table = self._prepared(
                name, table, summary.key, summary.columns, bucket_count=bucket_count
            )
            if table is not None:
                apply_cells(
                    table,
                    cells,
                    summary,
                    app_id=app_id,
                    version=version,
                    deleted_kept_h=self.deleted_kept_h,
                )
        finally:
            cells.unpersist()

    def _prepared(
        self,
        name: str,
        table: CurrentTable | None,
        key: tuple[str, ...],
        columns: Sequence[str],
        *,
        bucket_count: int,
    ) -> CurrentTable | None:
        """The table with these columns; None when it is not there, and nothing says how it should be."""
        if table is None and not columns:
            return None
        if table is None:
            kinds = self._kinds(name)
            in_order = [c for c in kinds if c in columns] + [c for c in columns if c not in kinds]
            wanted = {column: kinds.get(column, pa.string()) for column in in_order}
            return CurrentTable.create(self.lake, name, key, wanted, bucket_count=bucket_count)
        if table.bucket_count != bucket_count:
            raise ConfigurationError(
                f"the current state of {name} has {table.bucket_count or 'no'} buckets, and buckets says "
                f"{bucket_count or 'none'}; say what it has, or begin again with another lake"
            )
        if columns:
            table.require_key(key)
        new = [column for column in columns if column not in table.kinds]
        if new:
            kinds = self._kinds(name)
            table.add_columns({column: kinds.get(column, pa.string()) for column in new})
            table = table.again()
        return table

    def _kinds(self, name: str) -> dict[str, pa.DataType]:
        """The columns that the table has now, and their types in the lake."""
        with driver_connection(self.access, autocommit=True) as database:
            types = run(database, calls.column_types(name), self.access.conninfo())
        return {
            column: lake_type(None if f"{name}.{column}" in self.text_columns else kind)
            for column, kind in types.items()
        }
