"""Values that do not fit their columns, replaced by null and stored in the table `rejects` of the lake.

The rejects of a table are committed before its rows, under a transaction id of their own: if the process ends between
the two commits, the replayed micro-batch finds the first one and makes only the second.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pgsluice.errors import ChangeError
from pgsluice.lake.address import IcebergAddress
from pgsluice.lake.current_tables import CHANGED_AT, OWN_COLUMNS, SEQ, captured_column
from pgsluice.lake.names import TableName
from pgsluice.lake.storage import Folder
from pgsluice.lake.tables import lake_table
from pgsluice.pipelines.current_state.columns import TIMESTAMP, array_of, text_of
from pgsluice.pipelines.current_state.envelope import Value

REJECTS = pa.schema(
    [
        ("table", pa.string()),
        ("column", pa.string()),
        ("key", pa.string()),
        ("ev_id", pa.int64()),
        ("ev_time", TIMESTAMP),
        ("value", pa.string()),
        ("error", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class RejectedValue:
    """A value that does not fit its column; the fields are the columns of the table `rejects`.

    Attributes:
        table, column: Its column.
        key: Key of its row as JSON; the whole row if the table has no key.
        ev_id, ev_time: Event of the value, and its time in microseconds since 1970.
        value: The value as text.
        error: Reason.
    """

    table: str
    column: str
    key: str
    ev_id: int
    ev_time: int
    value: str
    error: str


def nulled(
    changes: pa.Table, name: TableName, key: Collection[str], schema: pa.Schema
) -> tuple[pa.Table, list[RejectedValue]]:
    """Return changes with null for each value that does not fit, and these values.

    A value of a key column is left, as its row cannot be identified without it. `ROW` is left too, so that a row
    without a key is found by its original values.

    Args:
        changes: Changes of one table, with the columns of `Portion.rows`.
        name: The table.
        key: The columns of its key in the lake.
        schema: The columns of the table in the lake.
    """
    present = [column for column in changes.column_names if column not in OWN_COLUMNS]
    cleaned, rejects = changes, []
    for field in schema:
        if field.name not in present or field.name in key:
            continue
        values = changes[field.name].to_pylist()
        if changes[field.name].type == field.type or _error_of(values, field.type) is None:
            continue
        for at, value in enumerate(values):
            error = _error_of([value], field.type)
            if error is None:
                continue
            (row,) = changes.slice(at, 1).to_pylist()
            known_by = {captured_column(column): row[column] for column in key or present}
            rejects.append(
                RejectedValue(
                    str(name),
                    captured_column(field.name),
                    json.dumps(known_by, ensure_ascii=False),
                    row[SEQ],
                    row[CHANGED_AT],
                    text_of(value) or "",
                    error,
                )
            )
            values[at] = None
        place = cleaned.column_names.index(field.name)
        column = pa.array(values, changes[field.name].type)
        cleaned = cleaned.set_column(place, field.name, column)
    return cleaned, rejects


def store_rejects(
    place: Folder | IcebergAddress,
    name: TableName,
    rejects: Sequence[RejectedValue],
    *,
    app_id: str,
    version: int,
) -> None:
    """Append the rejects of one table to the table `rejects`, once per app id and version.

    Args:
        place: Address of the table `rejects`; created if missing.
        name: The table.
        rejects: The rejects; without any, nothing is done.
        app_id, version: See `CurrentStates.apply`.
    """
    if not rejects:
        return
    columns = [
        pa.array([getattr(reject, field.name) for reject in rejects], field.type)
        for field in REJECTS
    ]
    table, app_id = lake_table(place, REJECTS), f"{app_id}/{name}"
    last = table.last_version(app_id)
    if last is not None and last >= version:
        return
    files = table.write(pa.table(columns, schema=REJECTS).to_batches(), part=0)
    table.commit(files, app_id=app_id, version=version)


def _error_of(values: Sequence[Value], kind: pa.DataType) -> str | None:
    try:
        array_of(values, kind, "")
    except ChangeError as error:
        return str(error.__context__)
    return None
