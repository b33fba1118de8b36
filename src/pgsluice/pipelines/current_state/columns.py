"""Columns of a table of PostgreSQL in the lake: which type each has there, and its values in that type.

A type of PostgreSQL gets one that holds all but its strangest values as they are; where the lake has none it becomes
text, as PostgreSQL writes it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Context, Decimal, InvalidOperation

import pyarrow as pa

from pgsluice.errors import SluiceError
from pgsluice.pipelines.current_state.envelope import Value

TIMESTAMP = pa.timestamp("us", "UTC")
_LOCAL_TIMESTAMP = pa.timestamp("us")
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
_DIGITS_MAX = 38  # of a decimal of Delta's
_PLAIN = {
    # An integer may be widened later, and a type in the lake stays: so all of them are long.
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
_TRUTHS = {True: True, False: False, "t": True, "f": False, "true": True, "false": False}


def lake_type(postgres_type: str | None) -> pa.DataType:
    """The type in the lake for one of PostgreSQL.

    Args:
        postgres_type: As `format_type` writes it; None for a column that is no longer there.
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
    """Values of one column in its type.

    Args:
        values: As an event has them.
        kind: What `lake_type` said.
        column: Its name, with the table's, to be named in an error.

    Raises:
        SluiceError: The type cannot hold one of them.
    """
    try:
        if pa.types.is_integer(kind) and all(type(v) is int or v is None for v in values):
            return pa.array(values, kind)
        if pa.types.is_boolean(kind):
            return pa.array([None if v is None else _TRUTHS[v] for v in values], kind)
        texts = [text_of(v) for v in values]
        if pa.types.is_binary(kind):
            return pa.array([None if t is None else _bytes(t) for t in texts], kind)
        array = pa.array(texts, pa.string())
        return array if pa.types.is_string(kind) else array.cast(kind)
    except (pa.ArrowException, ValueError, KeyError, OverflowError) as error:
        raise SluiceError(
            f"column {column} is {kind} in the lake, and has a value that this cannot hold: {error}; begin again with "
            f"another lake and the column as text: text_columns={column}"
        ) from None


def text_of(value: Value) -> str | None:
    """A value as text."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def identity_of(value: Value, kind: pa.DataType) -> object:
    """What is the same for two values of a key's column when, and only when, the lake holds them as equal."""
    text = text_of(value)
    if text is None:
        return None
    try:
        if pa.types.is_integer(kind):
            return int(text)
        if pa.types.is_decimal(kind):
            return Decimal(text).normalize(_EXACT)
        if pa.types.is_floating(kind):
            return float(text) + 0.0  # -0 is 0
        if pa.types.is_timestamp(kind):
            # Triggers of PgQ write the same moment in the time zone of each session.
            moment = datetime.fromisoformat(text)
            return moment if kind.tz is None else moment.astimezone(UTC)
        if pa.types.is_boolean(kind):
            return _TRUTHS[text]
    except (ValueError, InvalidOperation, KeyError):
        pass  # array_of says which value it is, and of which column
    return text


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError(f"{text!r} is not hexadecimal; set bytea_output to hex")
    return bytes.fromhex(text[2:])
