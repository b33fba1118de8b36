"""Types of PostgreSQL columns in the lake, and the conversion of their values.

Each type maps to one that holds all but its most unusual values unchanged. A type without counterpart in the lake
becomes text, as PostgreSQL writes it. Arrays and JSON become text too, or the array or struct type that the pipeline is
given. The dates and timestamps `infinity` and `-infinity` become the last and first of the years 1 to 9999.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Context, Decimal, InvalidOperation

import pyarrow as pa

from pgsluice.errors import ChangeError, one_line
from pgsluice.lake.nested import from_json, is_nested
from pgsluice.pipelines.current_state.envelope import Value

TIMESTAMP = pa.timestamp("us", "UTC")
_LOCAL_TIMESTAMP = pa.timestamp("us")
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
_DIGITS_MAX = 38  # of Delta's decimal
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
    """Return a value that is equal if and only if the lake holds two values of a key column as equal."""
    text = text_of(value)
    if text is None:
        return None
    text = _ENDS.get(kind, {}).get(text, text)
    try:
        if pa.types.is_integer(kind):
            return int(text)
        if pa.types.is_decimal(kind):
            return Decimal(text).normalize(_EXACT)
        if pa.types.is_floating(kind):
            return float(text) + 0.0  # -0 is 0
        if pa.types.is_timestamp(kind):
            # PgQ's triggers write times in the time zone of the session.
            moment = datetime.fromisoformat(text)
            return moment if kind.tz is None else moment.astimezone(UTC)
        if pa.types.is_boolean(kind):
            return _TRUTHS[text]
    except (ValueError, InvalidOperation, KeyError):
        pass  # array_of raises the error, with column and value
    return text


def stored_identity_of(value: object) -> object:
    """Return what `identity_of` returns for a value that is stored in the lake; not for `float32`."""
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    if isinstance(value, Decimal):
        return value.normalize(_EXACT)
    return value + 0.0 if isinstance(value, float) else value


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError(f"{text!r} is not hexadecimal; set bytea_output to hex")
    return bytes.fromhex(text[2:])
