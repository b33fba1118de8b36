"""Apply changes to a current-state table on the driver: for up to about ten million rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from pgsluice.lake.current_tables import CHANGED_AT, DELETED, ROW, SEQ
from pgsluice.lake.mutable import Changes
from pgsluice.lake.storage import dataset
from pgsluice.pipelines.current_state.collapse import Collapsed, Taken
from pgsluice.pipelines.current_state.table import CurrentTable, rows_of


def merge(table: CurrentTable, collapsed: Collapsed, *, app_id: str, version: int) -> None:
    """Merge changes into a current-state table in one commit.

    Args:
        table: Must have all columns of the changes.
        collapsed: The changes.
        app_id, version: See `CurrentStates.apply`.

    Raises:
        ChangeError: A value does not fit its column.
    """
    collapsed = collapsed.above(table.emptied_at)
    rows = rows_of(table.name, table.schema, collapsed.rows, table.key_columns)
    if not table.key:
        rows = pa.concat_tables([rows, _taken(table, collapsed)])
    empties = collapsed.emptied_at > table.emptied_at
    if rows.num_rows or empties:
        changes = Changes(
            rows,
            table.matched_by or (SEQ,),
            SEQ,
            deleted=None if table.key else DELETED,
            emptied_at=collapsed.emptied_at if empties else None,
        )
        table.stored.merge(changes, table.versions(app_id, version, collapsed.emptied_at))


def forget_deleted(table: CurrentTable, *, kept_h: float) -> None:
    """Remove tombstones older than `kept_h` hours."""
    before = datetime.now(UTC) - timedelta(hours=kept_h)
    # A conflict with a concurrent compaction is ignored; a later call removes them.
    table.stored.forget(DELETED, CHANGED_AT, before)


def gone(existing: pa.Table, taken: Sequence[Taken], emptied_at: int) -> list[int]:
    """Return the seqs of rows that are removed: for each removal the newest earlier equal row.

    Args:
        existing: `ROW` and `SEQ` of the rows of a table without a key, at least of those equal to a removed one.
        taken: Removals as (`row_hash`, seq), in order.
        emptied_at: Rows with a lower seq count as removed.
    """
    hashes = pa.array(sorted({hashed for hashed, _ in taken}), pa.string())
    existing = existing.filter(pc.is_in(existing[ROW], hashes)).sort_by(SEQ)
    equals: dict[str, list[int]] = {}
    for hashed, seq in zip(existing[ROW].to_pylist(), existing[SEQ].to_pylist(), strict=True):
        if seq >= emptied_at:
            equals.setdefault(hashed, []).append(seq)
    found = []
    for hashed, before in taken:
        older = [seq for seq in equals.get(hashed, ()) if seq < before]
        if older:
            equals[hashed].remove(older[-1])
            found.append(older[-1])
    return found


def _taken(table: CurrentTable, collapsed: Collapsed) -> pa.Table:
    """Return a deletion for each row to remove from a table without a key."""
    if not collapsed.taken or not table.files:
        return table.schema.empty_table()
    # delta-rs writes text as an Arrow type that Arrow's filters cannot compare.
    hashes = pa.array(sorted({hashed for hashed, _ in collapsed.taken}), pa.string())
    # Limited read-ahead: memory use depends neither on the table's size nor on the number of cores.
    read = dataset(table.folder, table.files, table.schema).to_batches(
        columns=[ROW, SEQ], batch_readahead=1, fragment_readahead=1
    )
    found = [batch.filter(pc.is_in(batch[ROW], hashes)) for batch in read]
    seqs = gone(pa.Table.from_batches(found), collapsed.taken, collapsed.emptied_at)
    deletions = pa.table({SEQ: pa.array(seqs, pa.int64()), DELETED: pa.repeat(True, len(seqs))})
    return rows_of(table.name, table.schema, deletions)
