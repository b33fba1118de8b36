"""Merge rows into a Delta table with delta-rs: of each key, the row with the highest sequence number stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import CommitProperties

from pgsluice.lake.delta.commits import commit_durably, commit_files
from pgsluice.lake.delta.opening import folder_of


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows to merge into a Delta table.

    Attributes:
        rows: One row for each key, with the table's columns.
        key: The columns that identify a row; none of them null.
        seq: The column that orders the rows of one key. A row replaces the table's if its `seq` is higher, and is
            inserted if the table has none with its key.
        deleted: A boolean column: where it is true, the table's row is deleted, whatever its `seq`; None for none.
        emptied_at: Delete the table's rows with a lower `seq`; None for none.
    """

    rows: pa.Table
    key: Sequence[str]
    seq: str
    deleted: str | None = None
    emptied_at: int | None = None


def apply(changes: Changes, table: DeltaTable, properties: CommitProperties) -> None:
    """Merge changes into a table in one commit, and force it to disk.

    No commit is made if nothing changes, except for `emptied_at`.

    Args:
        changes: The changes.
        table: The table to commit on, opened for `Use.MERGE`; it is at the new version afterwards.
        properties: The commit's apps.

    Raises:
        CommitFailedError: Another commit came first.
    """
    before, seq = table.version(), _quoted(changes.seq)
    with commit_durably(table, folder_of(table)):
        merger = table.merge(
            changes.rows,
            " and ".join(f"t.{_quoted(name)} = s.{_quoted(name)}" for name in changes.key),
            source_alias="s",
            target_alias="t",
            streamed_exec=False,  # the range of the keys then tells which files to read
            commit_properties=properties,
        )
        if changes.deleted is None:
            merger = merger.when_matched_update_all(f"s.{seq} > t.{seq}")
        else:
            merger = merger.when_matched_delete(f"s.{_quoted(changes.deleted)}")
        merger = merger.when_not_matched_insert_all()
        if changes.emptied_at is not None:
            merger = merger.when_not_matched_by_source_delete(f"t.{seq} < {changes.emptied_at}")
        merger.execute()
    if changes.emptied_at is not None and table.version() == before:
        # No row was deleted, so delta-rs made no commit; later changes have to find `emptied_at` all the same.
        commit_files(table, [], properties=properties)


def _quoted(name: str) -> str:
    """Quote a name for delta-rs's SQL."""
    return '"' + name.replace('"', '""') + '"'
