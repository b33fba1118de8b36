"""Columns of arrays and structs, from and to JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as t
from pyarrow import json as arrow_json

from pgsluice.errors import one_line


def is_nested(kind: pa.DataType) -> bool:
    """True for arrays and structs."""
    return _is_list(kind) or bool(t.is_struct(kind))


def from_json(documents: Sequence[str | None], kind: pa.DataType) -> pa.Array:
    """Parse JSON documents into values of an array or struct type.

    Members that the struct lacks are left out, and members that a document lacks are null.

    Raises:
        ValueError: A document is not JSON, or does not have this type.
    """
    lines = "\n".join(
        '{"v": %s}' % ("null" if text is None else text) for text in documents
    ).encode()
    if not documents:
        return pa.array([], kind)
    try:
        found = arrow_json.read_json(
            pa.BufferReader(lines),
            arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            arrow_json.ParseOptions(
                explicit_schema=pa.schema({"v": _read_as(kind)}),
                newlines_in_values=True,
                unexpected_field_behavior="ignore",
            ),
        )
        if found.num_rows != len(documents):
            raise ValueError("a value is not one JSON document")
        return found["v"].combine_chunks().cast(kind)
    except pa.ArrowException as error:
        raise ValueError(one_line(str(error))) from None


def to_json(values: pa.Array) -> list[str | None]:
    """Write values of an array or struct type as JSON, equal for equal values."""
    return [
        None if value is None else json.dumps(value, default=_written, sort_keys=True)
        for value in values.to_pylist()
    ]


def _is_list(kind: pa.DataType) -> bool:
    # pyiceberg reads arrays with 64-bit offsets.
    return bool(t.is_list(kind) or t.is_large_list(kind))


def _read_as(kind: pa.DataType) -> pa.DataType:
    """Return the type in which the reader accepts the JSON that PostgreSQL writes for values of a type."""
    if _is_list(kind):
        return pa.list_(_read_as(kind.value_type))
    if t.is_struct(kind):
        fields = (kind.field(at) for at in range(kind.num_fields))
        return pa.struct([(field.name, _read_as(field.type)) for field in fields])
    is_number = t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind)
    return kind if is_number or t.is_boolean(kind) else pa.string()


def _written(value: Any) -> str:
    # A decimal has the digits of its type, and a time the zone of its type.
    return str(value)
