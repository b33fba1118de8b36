"""Collapse the changes of one table with Arrow's JSON reader, which costs a fifth of `read_change` and `portion_of`.

For events of `sluice.capture` of a table with a key, whose values are numbers, booleans and text. For all others the
result is None, and the caller parses them one by one: truncations, values that do not fit the type of their column,
arrays and objects, and changes of the columns among the events.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from pgsluice.lake.current_tables import CHANGED_AT, DELETED, ROW, SEQ, lake_column
from pgsluice.lake.names import TableName
from pgsluice.pipelines.current_state.collapse import NEVER, Portion, last_changes
from pgsluice.pipelines.current_state.reading import MARKERS

_OPERATIONS = pa.array(["c", "r", "u", "d"])
# Of the source that sluice.capture writes; the reader refuses events with other members.
_SOURCE = pa.struct(
    {"schema": pa.string(), "table": pa.string(), "key": pa.list_(pa.string()), "txId": pa.int64()}
)
# Text that repr() only puts in quotes; see text_of_identity.
_PLAIN = r"^[ !#-&(-\[\]-~]*$"


def portion_of_json(
    table: TableName,
    events: pa.RecordBatch,
    kinds: Mapping[str, pa.DataType],
    documents: frozenset[str] = frozenset(),
) -> Portion | None:
    """Return the effect of changes, equal to that of `portion_of`; None if they need to be parsed one by one.

    Args:
        table: The table of the events.
        events: The columns of `reading.COLUMNS`, in the order of their ids.
        kinds: Lake types of the table's columns.
        documents: Columns of JSON; their values need to be parsed one by one.
    """
    is_change = pc.is_in(events.column("ev_type"), _OPERATIONS)
    is_marker = pc.is_in(events.column("ev_type"), MARKERS)
    is_other = pc.invert(pc.or_(is_change, is_marker))
    if events.column("ev_type").null_count or pc.any(is_other).as_py():
        return None
    changes = events.filter(is_change)
    shape = _shape(changes)
    if shape is None or not set(shape) <= kinds.keys():
        return None
    read_as = {n: pa.null() if n in documents else _read_as(kinds[n]) for n in shape}
    parsed = _parsed(changes.column("ev_data"), read_as)
    if parsed is None:
        return None
    key = _key(table, parsed, changes.column("ev_type"))
    if not key:
        return None
    before, after = parsed["before"], parsed["after"]
    was, now = _identities(before, key, kinds), _identities(after, key, kinds)
    if was is None or now is None:
        return None
    seq = changes.column("ev_id")
    at_us = changes.column("ev_time").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    # An update of the key is two changes: the row under the former key is deleted.
    moved = pc.fill_null(pc.not_equal(was, now), pc.is_valid(was))
    moved = pc.and_(moved, pc.is_valid(was))
    rows = last_changes(
        [
            _rows(after, tuple(shape), seq, at_us, now, pc.is_valid(now), is_deleted=False),
            _rows(before, key, seq, at_us, was, moved, is_deleted=True),
        ],
        NEVER,
    )
    columns = key if pc.all(rows[DELETED]).as_py() else tuple(shape)
    selected = [SEQ, CHANGED_AT, DELETED, ROW, *map(lake_column, columns)]
    return Portion(table, key, rows.select(selected), columns)


def _shape(changes: pa.RecordBatch) -> Sequence[str] | None:
    """Return the columns of the rows; None if they differ between the first and the last row, or without rows."""
    shapes = []
    # Events of deletes may hold the key only.
    kept = changes.filter(pc.not_equal(changes.column("ev_type"), "d"))
    data = (kept if kept.num_rows else changes).column("ev_data")
    for place in (0, -1):
        try:
            envelope = json.loads(data[place].as_py())
            row = envelope["after"] or envelope["before"]
        except (IndexError, ValueError, KeyError, TypeError, RecursionError):
            return None
        shapes.append(list(row) if isinstance(row, dict) else None)
    return shapes[0] if shapes[0] == shapes[1] else None


def _parsed(data: pa.Array, read_as: Mapping[str, pa.DataType]) -> dict[str, pa.StructArray] | None:
    """Return the members of the envelopes; None if a value has another type, or an envelope other members."""
    row = pa.struct(dict(read_as))
    schema = pa.schema(
        {
            "op": pa.string(),
            "before": row,
            "after": row,
            "source": _SOURCE,
            "ts_ms": pa.int64(),
            # Of their values only those of the key are needed, which are never left out.
            "unchanged": pa.list_(pa.string()),
        }
    )
    if data.null_count or pc.any(pc.match_substring(data, "\n")).as_py():
        return None
    lines = pa.ListArray.from_arrays(pa.array([0, len(data)], pa.int32()), data)
    try:
        text = pc.binary_join(lines, "\n")[0].as_buffer()
        found = arrow_json.read_json(
            pa.BufferReader(text),
            arrow_json.ReadOptions(use_threads=False, block_size=text.size + 1),
            arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
        ).combine_chunks()
    except pa.ArrowException:
        return None
    if found.num_rows != len(data):
        return None
    return {name: found[name].combine_chunks() for name in found.column_names}


def _read_as(kind: pa.DataType) -> pa.DataType:
    """Return the type in which the reader accepts the values that the trigger writes for a column."""
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return kind if is_number or pa.types.is_boolean(kind) else pa.string()


def _key(
    table: TableName, parsed: Mapping[str, pa.Array], types: pa.Array
) -> tuple[str, ...] | None:
    """Return the key; None if there is none, or if an envelope is of another table, key or type of event."""
    source = parsed["source"]
    schemas, tables, keys = (source.field(name) for name in ("schema", "table", "key"))
    key = keys[0].as_py()
    if not key or not isinstance(key, list):
        return None
    counts = pc.list_value_length(keys)
    is_same = [
        pc.equal(parsed["op"], types),
        pc.equal(schemas, table.schema),
        pc.equal(tables, table.table),
        pc.equal(counts, len(key)),
        pc.is_valid(source),
    ]
    if not all(pc.min_max(pc.fill_null(same, False))["min"].as_py() for same in is_same):
        return None
    for place, name in enumerate(key):
        if not pc.all(pc.equal(pc.list_element(keys, place), name), skip_nulls=False).as_py():
            return None
    return tuple(key)


def _identities(
    rows: pa.StructArray, key: Sequence[str], kinds: Mapping[str, pa.DataType]
) -> pa.Array | None:
    """Return the identity of each row as `text_of_identity` does, null for no row; None if a key is not plain."""
    is_row = pc.is_valid(rows)
    texts = []
    for name in key:
        if name not in kinds or rows.type.get_field_index(name) < 0:
            return None
        values = _field(rows, name)
        if pc.any(pc.xor(pc.is_valid(values), is_row)).as_py():
            return None
        if pa.types.is_string(values.type) and kinds[name] == pa.string():
            if not pc.all(pc.match_substring_regex(values, _PLAIN)).as_py():
                return None
        elif not pa.types.is_integer(values.type):
            return None
        texts.append(pc.binary_join_element_wise("'", values.cast(pa.string()), "'", ""))
    return pc.binary_join_element_wise("[", pc.binary_join_element_wise(*texts, ", "), "]", "")


def _rows(
    rows: pa.StructArray,
    columns: Sequence[str],
    seq: pa.Array,
    at_us: pa.Array,
    known_by: pa.Array,
    chosen: pa.Array,
    *,
    is_deleted: bool,
) -> pa.Table:
    """Return chosen rows as `Portion.rows`."""
    contents = {lake_column(name): _value(_field(rows, name)) for name in columns}
    deleted = pa.repeat(is_deleted, len(rows))
    table = pa.table({SEQ: seq, CHANGED_AT: at_us, DELETED: deleted, ROW: known_by, **contents})
    return table.filter(chosen)


def _field(rows: pa.StructArray, name: str) -> pa.Array:
    # By its place: a name that begins with a dot would be a path.
    return pc.struct_field(rows, [rows.type.get_field_index(name)])


def _value(values: pa.Array) -> pa.Array:
    """Return values in one of the types of `Portion.rows`."""
    kept = pa.types.is_boolean(values.type) or pa.types.is_integer(values.type)
    return values if kept else values.cast(pa.string())
