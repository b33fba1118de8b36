"""Rows in the text format of PostgreSQL's COPY: columns in canonical form, separated by tabs, \\N for null."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_NULL = b"\\N"
_KEPT = "surrogateescape"  # keeps bytes that are not UTF-8
_ESCAPES = (
    ("\\", "\\\\"),
    ("\b", "\\b"),
    ("\f", "\\f"),
    ("\n", "\\n"),
    ("\r", "\\r"),
    ("\t", "\\t"),
    ("\v", "\\v"),
)
_ESCAPED = re.compile(r"\\(.)")
_UNESCAPED = {escape[1]: character for character, escape in _ESCAPES}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CLIPPED_AT = 1000
_PARSED_AT_ONCE = 1000


def lines_of(batch: pa.RecordBatch, columns: Sequence[str], forms: Sequence[str]) -> list[bytes]:
    """Format each row of a batch of the lake.

    Args:
        batch: May have additional columns.
        columns: Columns to write, in order.
        forms: Text form of each column; see `forms`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = [_text(batch.column(name), form) for name, form in zip(columns, forms, strict=True)]
    joined = pc.binary_join_element_wise(
        *texts,
        pa.scalar("\t", pa.large_string()),
        null_handling="replace",
        null_replacement=_NULL.decode(),
    )
    return joined.cast(pa.large_binary()).to_pylist()  # type: ignore[no-any-return]


def with_nested(lines: Iterable[bytes], nested: Mapping[int, pa.DataType]) -> Iterator[bytes]:
    """Replace the JSON of some columns by that of their values in the lake.

    Args:
        lines: Rows of PostgreSQL.
        nested: The array or struct type of each such column, by position. A value that does not have this type is left.
    """
    left = iter(lines)
    while rows := [line.split(b"\t") for line in islice(left, _PARSED_AT_ONCE)]:
        for at, kind in nested.items():
            for row, text in zip(rows, _nested_texts([row[at] for row in rows], kind), strict=True):
                row[at] = text
        yield from (b"\t".join(row) for row in rows)


def key_of(line: bytes, columns: int) -> bytes:
    """Return the first columns of a line; tabs within values are escaped, so each tab separates columns."""
    end = line.find(b"\t")
    while columns > 1 and end >= 0:
        end = line.find(b"\t", end + 1)
        columns -= 1
    return line if end < 0 else line[:end]


def values_of(line: bytes) -> list[str | None]:
    """Parse a line into its unescaped column values."""
    return [
        None if field == _NULL else _legible_text(_unescape(field.decode("utf-8", _KEPT)))
        for field in line.split(b"\t")
    ]


def shown(
    columns: Sequence[str], forms: Sequence[str], values: Sequence[str | None]
) -> Mapping[str, str | None]:
    """Format the values of a row for display: timestamps in ISO 8601, long text truncated."""
    return {
        name: None if value is None else _legible(form, value)
        for name, form, value in zip(columns, forms, values, strict=True)
    }


def order_of(values: Sequence[str | None]) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key: numbers in numeric order, then text, then nulls."""
    return tuple(_rank(value) for value in values)


def _rank(value: str | None) -> tuple[int, int, str]:
    if value is None:
        return (2, 0, "")
    if re.fullmatch(r"-?\d{1,40}", value):
        return (0, int(value), "")
    return (1, 0, value)


def _text(column: pa.Array, form: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as t

    from pgsluice.lake.nested import is_nested, to_json

    text, kind = pa.large_string(), column.type
    if t.is_string(kind) or t.is_large_string(kind):
        return _escape(column.cast(text))
    if is_nested(kind):
        return _escape(pa.array(to_json(column), text))
    if form in ("micros", "micros_bounded", "time"):
        return column.cast(pa.int64()).cast(text)
    if form in ("days", "days_bounded"):
        return column.cast(pa.int32()).cast(text)
    if form == "hex":
        return pa.array([None if v is None else v.hex() for v in column.to_pylist()], text)
    if form == "numeric":
        return pa.array([None if v is None else _plain(v) for v in column.to_pylist()], text)
    if form in ("float4", "float8"):
        bits = {"float4": (pa.float32(), pa.int32()), "float8": (pa.float64(), pa.int64())}[form]
        wide = pc.add(column.cast(bits[0]), pa.scalar(0, bits[0]))  # -0 is 0
        written = wide.view(bits[1]).cast(text)
        return pc.if_else(pc.is_nan(wide), pa.scalar("NaN", text), written)
    return column.cast(text)


def _nested_texts(fields: Sequence[bytes], kind: pa.DataType) -> list[bytes]:
    from pgsluice.lake.nested import from_json

    documents = [None if field == _NULL else _unescape(field.decode()) for field in fields]
    try:
        texts = _text(from_json(documents, kind), "json").to_pylist()
    except ValueError:
        if len(fields) == 1:
            return list(fields)
        return [text for field in fields for text in _nested_texts([field], kind)]
    return [_NULL if text is None else text.encode() for text in texts]


def _plain(number: Decimal) -> str:
    """Format a number without exponent and trailing zeros."""
    written = format(number, "f")
    return written.rstrip("0").rstrip(".") if "." in written else written


def _escape(column: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    if pc.any(pc.match_substring_regex(column, r"[\\\x08\f\n\r\t\x0b]")).as_py():
        for character, escape in _ESCAPES:
            column = pc.replace_substring(column, character, escape)
    return column


def _legible_text(text: str) -> str:
    """Return a text with the bytes that are not UTF-8 in hexadecimal."""
    return text.encode("utf-8", _KEPT).decode("utf-8", "backslashreplace")


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: _UNESCAPED.get(found[1], found[1]), text)


def _legible(form: str, value: str) -> str:
    digits = re.fullmatch(r"-?\d+", value) is not None
    if form in ("micros", "micros_bounded") and digits:
        value = _moment(int(value))
    elif form in ("float4", "float8") and digits:
        value = str(_number(form, int(value)))
    return value if len(value) <= _CLIPPED_AT else f"{value[:_CLIPPED_AT]}…"


def _moment(micros: int) -> str:
    try:
        return (_EPOCH + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return f"{micros} µs"


def _number(form: str, bits: int) -> Any:
    import struct

    written, read = ("<i", "<f") if form == "float4" else ("<q", "<d")
    return struct.unpack(read, struct.pack(written, bits))[0]
