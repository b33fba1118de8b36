"""Types of PostgreSQL columns in the lake, and the conversion of their values.

Each type maps to one that holds all but its most unusual values unchanged. A type without counterpart in the lake
becomes text, as PostgreSQL writes it. Arrays and JSON become text too, or the array or struct type that the pipeline is
given. The dates and timestamps `infinity` and `-infinity` become the last and first of the years 1 to 9999. In a key
they stay distinct from these: see `ends_in`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Context, Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc

from pgsluice.errors import ChangeError, one_line
from pgsluice.lake.nested import from_json, is_nested
from pgsluice.pipelines.current_state.envelope import Value

TIMESTAMP = pa.timestamp("us", "UTC")
_LOCAL_TIMESTAMP = pa.timestamp("us")
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
_OFFSET_SECONDS = re.compile(r"[+-]\d\d:\d\d:\d\d$")
_DIGITS_MAX = 38  # of Delta's decimal
_INFINITE = ("infinity", "-infinity")
_PLAIN = {
    # All integers are long, as the column may be widened later, and its type in the lake cannot change.
    "smallint": pa.int64(),
    "integer": pa.int64(),
    "bigint": pa.int64(),
    "oid": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "bytea": pa.binary(),
}
_EXACT = Context(prec=2 * _DIGITS_MAX)
_ENDS = {
    pa.date32(): {"infinity": "9999-12-31", "-infinity": "0001-01-01"},
    _LOCAL_TIMESTAMP: {
        "infinity": "9999-12-31T23:59:59.999999",
        "-infinity": "0001-01-01T00:00:00",
    },
    TIMESTAMP: {
        "infinity": "9999-12-31T23:59:59.999999+00:00",
        "-infinity": "0001-01-01T00:00:00+00:00",
    },
}
_NAN = "nan"
_TRUTHS = {True: True, False: False, "t": True, "f": False, "true": True, "false": False}


def lake_type(postgres_type: str | None) -> pa.DataType:
    """Return the lake type for a PostgreSQL type.

    Args:
        postgres_type: As `format_type` writes it; None for a dropped column.
    """
    if postgres_type is None:
        return pa.string()
    if postgres_type.startswith("timestamp") and not postgres_type.endswith("]"):
        return TIMESTAMP if postgres_type.endswith("with time zone") else _LOCAL_TIMESTAMP
    numeric = _NUMERIC.fullmatch(postgres_type)
    if numeric:
        digits, scale = int(numeric[1]), int(numeric[2])
        if digits <= _DIGITS_MAX and 0 <= scale <= digits:
            return pa.decimal128(digits, scale)
    return _PLAIN.get(postgres_type, pa.string())


def array_of(values: Sequence[Value], kind: pa.DataType, column: str) -> pa.Array:
    """Return the values of one column as an array of its type.

    Args:
        values: Values from events.
        kind: Type from `lake_type`, or an array or struct for values in JSON.
        column: Qualified column name, for the error.

    Raises:
        ChangeError: A value does not fit the type.
    """
    try:
        if pa.types.is_integer(kind) and all(type(v) is int or v is None for v in values):
            return pa.array(values, kind)
        if pa.types.is_boolean(kind):
            return pa.array([None if v is None else _TRUTHS[v] for v in values], kind)
        texts = [text_of(v) for v in values]
        if pa.types.is_binary(kind):
            return pa.array([None if t is None else _bytes(t) for t in texts], kind)
        if pa.types.is_string(kind):
            return pa.array(texts, kind)
        if is_nested(kind):
            return from_json(texts, kind)
        if ends := _ENDS.get(kind):
            texts = [None if t is None else ends.get(t, t) for t in texts]
        if kind == TIMESTAMP:
            texts = [None if t is None else _with_minutes(t) for t in texts]
        return pa.array(texts, pa.string()).cast(kind)
    except (pa.ArrowException, ValueError, KeyError, OverflowError) as error:
        raise ChangeError(
            f"column {column} is {kind} in the lake, and has a value that does not fit: {one_line(str(error))}; "
            f"store the column as text (column_types={{{column!r}: 'string'}}), and rebuild the table"
        ) from None


def text_of(value: Value) -> str | None:
    """Return a value as text."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def identity_of(value: Value, kind: pa.DataType) -> object:
    """Return a value that is equal if and only if two values of a key column are stored as equal.

    Values that PostgreSQL holds as equal but writes differently may have different identities, such as `1.0` and `1.00`
    of `numeric`: each event has the former value as it was stored.
    """
    text = text_of(value)
    if text is None:
        return None
    try:
        if pa.types.is_integer(kind):
            return int(text)
        if pa.types.is_decimal(kind):
            return Decimal(text).normalize(_EXACT)
        if pa.types.is_floating(kind):
            return _float_identity(float(text))
        if pa.types.is_timestamp(kind):
            # PgQ's triggers write times in the time zone of the session.
            moment = datetime.fromisoformat(text)
            return moment if kind.tz is None else moment.astimezone(UTC)
        if pa.types.is_boolean(kind):
            return _TRUTHS[text]
    except (ValueError, InvalidOperation, KeyError):
        pass  # array_of raises the error, with column and value
    return text


def stored_identities_of(values: pa.ChunkedArray) -> list[object]:
    """Return what `identity_of` returns, for the stored values of a key column without infinite times."""
    if pa.types.is_float32(values.type):
        # As text, since Python has doubles only: 0.1 has other digits in them.
        return [_float_identity(float(text)) for text in values.cast(pa.string()).to_pylist()]
    return list(map(_stored_identity_of, values.to_pylist()))


def _stored_identity_of(value: object) -> object:
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    if isinstance(value, Decimal):
        return value.normalize(_EXACT)
    return _float_identity(value) if isinstance(value, float) else value


def _float_identity(value: float) -> object:
    return _NAN if math.isnan(value) else value + 0.0  # -0 is 0


def has_ends(kind: pa.DataType) -> bool:
    """True if a type stores `infinity` and `-infinity` as its last and first values."""
    return kind in _ENDS


def ends_in(rows: pa.Table, key: Mapping[str, pa.DataType]) -> pa.Array:
    """Return for each change the infinite times of its key, empty text without any.

    Args:
        rows: Changes, with their values as text.
        key: Columns of the key in the lake with their types.

    Returns:
        `infinity`, `-infinity` or nothing for each column of the key, separated by commas.
    """
    found = [
        pc.fill_null(pc.is_in(rows[name], pa.array(_INFINITE, rows[name].type)), False)
        if has_ends(kind)
        else pa.repeat(False, rows.num_rows)
        for name, kind in key.items()
    ]
    if not any(pc.any(one).as_py() for one in found):
        return pa.repeat("", rows.num_rows)
    texts = [
        pc.if_else(one, rows[name].cast(pa.string()), "")
        for name, one in zip(key, found, strict=True)
    ]
    joined = pc.binary_join_element_wise(*texts, ",")
    joined = pc.if_else(pc.match_substring(joined, "infinity"), joined, "")
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def identities_of(
    rows: pa.Table, key: Sequence[str], ends: Sequence[str]
) -> list[tuple[object, ...]]:
    """Return the identities of stored rows.

    Args:
        rows: Rows of a current-state table.
        key: Columns of its key in the lake.
        ends: Infinite times of each row, see `ends_in`.
    """
    columns = [stored_identities_of(rows[name]) for name in key]
    for row, infinite in enumerate(ends):
        for column, text in zip(columns, infinite.split(","), strict=False):
            if text:
                column[row] = text
    return list(zip(*columns, strict=True))


def _with_minutes(text: str) -> str:
    """Return a timestamp with an offset in hours and minutes, as Arrow reads only these.

    Before standard times most time zones, in which PgQ's triggers write, had offsets with seconds.
    """
    if _OFFSET_SECONDS.search(text):
        return datetime.fromisoformat(text).astimezone(UTC).isoformat()
    return text


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError(f"{text!r} is not hexadecimal; set bytea_output to hex")
    return bytes.fromhex(text[2:])
