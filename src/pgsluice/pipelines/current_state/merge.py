"""Changes applied to a current state by the driver alone, with delta-rs: up to some ten million rows."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
from deltalake.exceptions import CommitFailedError

from pgsluice.lake.columns import delta_name
from pgsluice.lake.delta.commits import commit_durably
from pgsluice.pipelines.current_state.collapse import Collapsed, Last
from pgsluice.pipelines.current_state.table import DELETED, ROW, SEQ, CurrentTable, rows_of

_TRIES = 5  # somebody compacts the table meanwhile


def merge(table: CurrentTable, collapsed: Collapsed, *, app_id: str, version: int) -> bool:
    """Apply changes in one commit, once for each version of an application.

    Args:
        table: Has all columns of the changes.
        collapsed: The changes.
        app_id: Who applies them.
        version: Rises with each application; the first may be 0.

    Returns:
        False when this or a later version was applied already; nothing is done then.

    Raises:
        SluiceError: A value does not fit its column, or other commits came between again and again.
    """
    return table.commit_once(
        lambda newest: _merge(newest, collapsed.above(newest.emptied_at), app_id, version),
        app_id=app_id,
        version=version,
        tries=_TRIES,
    )


def forget_deleted(table: CurrentTable, *, kept_h: float) -> None:
    """Remove the traces of rows that were deleted longer ago than this, in hours."""
    before = datetime.now(UTC) - timedelta(hours=kept_h)
    # Where somebody compacts the table at this moment: another time.
    with suppress(CommitFailedError), commit_durably(table.delta, table.folder):
        table.delta.delete(f"{DELETED} and _changed_at < '{before.isoformat()}'")


def _merge(table: CurrentTable, collapsed: Collapsed, app_id: str, version: int) -> None:
    properties = table.commit_properties(app_id, version, collapsed.emptied_at)
    rows = rows_of(table.name, table.schema, collapsed.rows.values())
    known_by = table.key
    if not table.key:
        known_by = (SEQ,)
        rows = pa.concat_tables([rows, _taken(table, collapsed)])
    draws_line = collapsed.emptied_at > table.emptied_at
    if not rows.num_rows and not draws_line:
        return
    with commit_durably(table.delta, table.folder):
        merger = table.delta.merge(
            rows,
            " and ".join(f"t.{delta_name(name)} = s.{delta_name(name)}" for name in known_by),
            source_alias="s",
            target_alias="t",
            streamed_exec=False,  # the ends of the keys say which files need not be read
            commit_properties=properties,
        )
        if table.key:
            merger = merger.when_matched_update_all(
                f"s.{SEQ} > t.{SEQ}"
            ).when_not_matched_insert_all()
        else:
            merger = merger.when_matched_delete(f"s.{DELETED}").when_not_matched_insert_all()
        if draws_line:
            merger = merger.when_not_matched_by_source_delete(f"t.{SEQ} < {collapsed.emptied_at}")
        before = table.delta.version()
        merger.execute()
        if draws_line and table.delta.version() == before:
            # Nothing was below the line, so delta-rs made no commit; but something may come late.
            table.delta.create_write_transaction(
                [], "append", table.delta.schema(), commit_properties=properties
            )


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
