"""Merge rows into a Delta table with delta-rs; the row with the highest sequence number per key wins."""

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
        rows: One row per key, with the table's columns.
        key: Non-null columns that identify a row.
        seq: Column that orders the rows of one key. A row updates the table's row if its `seq` is higher, and is
            inserted if its key is new.
        deleted: Boolean column; where true, the table's row is deleted regardless of its `seq`. None for no column.
        emptied_at: Delete the table's rows with a lower `seq`; None to keep them.
    """

    rows: pa.Table
    key: Sequence[str]
    seq: str
    deleted: str | None = None
    emptied_at: int | None = None


def apply(changes: Changes, table: DeltaTable, properties: CommitProperties) -> None:
    """Merge changes into a table in one commit and fsync it.

    Without `emptied_at`, no commit is made if nothing changes.

    Args:
        changes: The changes.
        table: The table to commit on, opened for `Use.MERGE`; it is at the new version afterwards.
        properties: App transactions of the commit.

    Raises:
        CommitFailedError: A concurrent commit conflicts.
    """
    before, seq = table.version(), _quoted(changes.seq)
    with commit_durably(table, folder_of(table)):
        merger = table.merge(
            changes.rows,
            " and ".join(f"t.{_quoted(name)} = s.{_quoted(name)}" for name in changes.key),
            source_alias="s",
            target_alias="t",
            streamed_exec=False,  # prunes files by the key range of the rows
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
        # delta-rs made no commit as no row was deleted, but later merges need the transactions in `properties`.
        commit_files(table, [], properties=properties)


def _quoted(name: str) -> str:
    """Quote an identifier for delta-rs's SQL."""
    return '"' + name.replace('"', '""') + '"'
