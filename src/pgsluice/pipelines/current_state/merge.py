"""Apply changes to a current state on the driver alone, with delta-rs: up to some ten million rows."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
from deltalake.exceptions import CommitFailedError

from pgsluice.lake.delta.commits import commit_durably
from pgsluice.lake.delta.merge import Changes, apply
from pgsluice.pipelines.current_state.collapse import Collapsed, Last
from pgsluice.pipelines.current_state.table import DELETED, ROW, SEQ, CurrentTable, rows_of


def merge(table: CurrentTable, collapsed: Collapsed, *, app_id: str, version: int) -> None:
    """Merge changes into a current state in one commit.

    Args:
        table: Has all columns of the changes.
        collapsed: The changes.
        app_id, version: As of `CurrentStates.apply`.

    Raises:
        SluiceError: A value does not fit its column.
        CommitFailedError: Another commit came first.
    """
    collapsed = collapsed.above(table.emptied_at)
    rows = rows_of(table.name, table.schema, collapsed.rows.values())
    if not table.key:
        rows = pa.concat_tables([rows, _taken(table, collapsed)])
    empties = collapsed.emptied_at > table.emptied_at
    if rows.num_rows or empties:
        changes = Changes(
            rows,
            table.key or (SEQ,),
            SEQ,
            deleted=None if table.key else DELETED,
            emptied_at=collapsed.emptied_at if empties else None,
        )
        properties = table.commit_properties(app_id, version, collapsed.emptied_at)
        apply(changes, table.delta, properties)


def forget_deleted(table: CurrentTable, *, kept_h: float) -> None:
    """Remove the traces of rows that were deleted longer ago than this, in hours."""
    before = datetime.now(UTC) - timedelta(hours=kept_h)
    # Where somebody compacts the table at this moment: another time.
    with suppress(CommitFailedError), commit_durably(table.delta, table.folder):
        table.delta.delete(f"{DELETED} and _changed_at < '{before.isoformat()}'")


def _taken(table: CurrentTable, collapsed: Collapsed) -> pa.Table:
    """For each row to take away, where no key says which: the newest of its equals that came before."""
    hashes = sorted({hashed for hashed, _ in collapsed.taken})
    if not hashes or not table.files:
        return table.schema.empty_table()
    # Files of delta-rs hold text as a type of Arrow's that its own filters cannot compare.
    wanted = pa.array(hashes, pa.string())
    read = pyarrow.dataset.dataset(table.files, schema=table.schema).to_batches(columns=[ROW, SEQ])
    found = [batch.filter(pc.is_in(batch[ROW], wanted)) for batch in read]
    there = pa.Table.from_batches(found).sort_by(SEQ)
    equals: dict[str, list[int]] = {}
    for hashed, seq in zip(there[ROW].to_pylist(), there[SEQ].to_pylist(), strict=True):
        if seq >= collapsed.emptied_at:
            equals.setdefault(hashed, []).append(seq)
    gone = []
    for hashed, before in collapsed.taken:
        older = [seq for seq in equals.get(hashed, ()) if seq < before]
        if older:
            equals[hashed].remove(older[-1])
            gone.append(Last(older[-1], 0, True, {}))
    return rows_of(table.name, table.schema, gone)
