"""One micro-batch of events, applied to the current state of every table that it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from pgsluice.client.calls import spark as calls
from pgsluice.errors import ConfigurationError
from pgsluice.pipelines.current_state.buckets import (
    CollapsedByBuckets,
    collapsed_by_buckets,
    rewrite,
)
from pgsluice.pipelines.current_state.collapse import Collapsed, collapse
from pgsluice.pipelines.current_state.columns import lake_type
from pgsluice.pipelines.current_state.envelope import Change
from pgsluice.pipelines.current_state.merge import forget_deleted, merge
from pgsluice.pipelines.current_state.reading import EXPRESSIONS, by_table, changes_of
from pgsluice.pipelines.current_state.table import CurrentTable
from pgsluice.spark.access import Access, driver_connection, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COMMITS_BETWEEN_FORGETTING = 100  # it reads the whole table

Changes = Collapsed | CollapsedByBuckets
# Reads the changes of a table; the argument is the types of its columns in the lake.
Reading = Callable[[Mapping[str, pa.DataType]], AbstractContextManager[Changes]]


def apply(
    table: CurrentTable, changes: Changes, *, app_id: str, version: int, deleted_kept_h: float
) -> bool:
    """Apply changes to a current state in one commit, once for each version of an app.

    The driver merges them; in a table with buckets, Spark's executors rewrite the buckets that have changes.

    Args:
        table: Has all columns of the changes.
        changes: Collapsed by buckets if the table has buckets.
        app_id: The app that applies them.
        version: Rises with each application; the first may be 0.
        deleted_kept_h: For how many hours the traces of deleted rows stay, at least.

    Returns:
        False if this or a later version was applied already; nothing is done then.

    Raises:
        SluiceError: A value does not fit its column, or every attempt conflicted with another commit.
    """

    def commit(newest: CurrentTable) -> None:
        if isinstance(changes, Collapsed):
            merge(newest, changes, app_id=app_id, version=version)
        else:
            rewrite(newest, changes, app_id=app_id, version=version, deleted_kept_h=deleted_kept_h)

    committed = table.commit_once(commit, app_id=app_id, version=version)
    if committed is None:
        return False
    # A rewritten bucket is without old traces already, and a table without a key has none.
    keeps_traces = isinstance(changes, Collapsed) and bool(table.key)
    if keeps_traces and committed.delta.version() % _COMMITS_BETWEEN_FORGETTING == 0:
        forget_deleted(committed, kept_h=deleted_kept_h)
    return True


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
    tables: frozenset[str] | None
    buckets: Mapping[str, int]
    text_columns: frozenset[str]
    deleted_kept_h: float

    def apply(self, events: DataFrame, *, app_id: str, version: int) -> None:
        """Apply the changes among these events, to each table once for each version.

        Raises:
            SluiceError: A change cannot be read or does not fit; see `collapse`, `columns` and `merge`.
        """
        events = events.selectExpr(*EXPRESSIONS).where("ev_extra1 is not null")
        for name, bucket_count in self.buckets.items():
            if self._wants(name):
                mine = events.where(events["ev_extra1"] == name).rdd
                reading = partial(collapsed_by_buckets, mine, name, bucket_count=bucket_count)
                self._apply(name, reading, bucket_count, app_id, version)
        rest = events
        if self.buckets:
            rest = events.where(~events["ev_extra1"].isin(list(self.buckets)))
        columns = [column.to_pylist() for column in rest.toArrow().columns]
        changed = by_table(changes_of(zip(*columns, strict=True), self._wants))
        for name, changes in sorted(changed.items()):
            self._apply(name, partial(_collapsed, changes), 0, app_id, version)

    def _wants(self, name: str) -> bool:
        return self.tables is None or name in self.tables

    def _apply(
        self, name: str, reading: Reading, bucket_count: int, app_id: str, version: int
    ) -> None:
        table = CurrentTable.open(self.lake, name)
        if table is not None and table.has_applied(app_id, version):
            return
        with reading(table.kinds if table else self._kinds(name)) as changes:
            table = self._prepared(name, table, changes.key, changes.columns, bucket_count)
            if table is not None:
                apply(
                    table,
                    changes,
                    app_id=app_id,
                    version=version,
                    deleted_kept_h=self.deleted_kept_h,
                )

    def _prepared(
        self,
        name: str,
        table: CurrentTable | None,
        key: tuple[str, ...],
        columns: Sequence[str],
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


@contextmanager
def _collapsed(changes: Sequence[Change], kinds: Mapping[str, pa.DataType]) -> Iterator[Collapsed]:
    yield collapse(changes, kinds)
