"""Merge rows into a Delta table with delta-rs; the row with the highest sequence number per key wins."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import CommitProperties

from pgsluice.lake.delta.commits import commit_durably, commit_files
from pgsluice.lake.delta.opening import folder_of
from pgsluice.lake.mutable import Changes


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
            streamed_exec=not all(map(_has_bounds, changes.rows.select(changes.key).schema)),
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


def _has_bounds(column: pa.Field) -> bool:
    """True if the statistics of files bound the values of a column, so that the key range of the rows may skip files.

    delta-rs leaves out NaN, and rounds decimals of more than 15 digits to doubles.
    """
    return not (pa.types.is_floating(column.type) or pa.types.is_decimal(column.type))


def _quoted(name: str) -> str:
    """Quote an identifier for delta-rs's SQL."""
    return '"' + name.replace('"', '""') + '"'
