"""Canonical text forms for comparing a lake column with a PostgreSQL column.

The forms are those of `sluice.canonical_copy`. A pair of types without a form is incompatible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgsluice.client.calls.verify import StoredColumn

if TYPE_CHECKING:
    import pyarrow as pa

_INTEGER_BITS = {"smallint": 16, "integer": 32, "bigint": 64, "oid": 64, "xid8": 64}
_JSON = ("json", "jsonb")
_TEXTS = ("text", "character varying", "character", "name", *_JSON)


def own_form(column: StoredColumn, lake: pa.DataType) -> str | None:
    """Return the form for a lake type that stores the column's values natively; None if it does not.

    A text column of the lake stores only text and JSON natively.
    """
    import pyarrow.types as t

    name = column.type_name
    if _is_text(lake):
        return "text" if name in _TEXTS else None
    if name in _INTEGER_BITS:
        wide_enough = t.is_signed_integer(lake) and lake.bit_width >= _INTEGER_BITS[name]
        return "text" if wide_enough else None
    if t.is_float32(lake) or t.is_float64(lake):
        return _float_form(name, lake.bit_width)
    fits = {
        "text": name == "boolean" and t.is_boolean(lake),
        "micros": _holds_stamp(name, lake),
        "time": name == "time without time zone" and t.is_time64(lake) and lake.unit == "us",
        "days": name == "date" and t.is_date32(lake),
        "numeric": name == "numeric" and t.is_decimal(lake),
        "hex": name == "bytea" and (t.is_binary(lake) or t.is_large_binary(lake)),
    }
    return next((form for form, holds in fits.items() if holds), None)


def captured_form(
    column: StoredColumn, lake: pa.DataType, *, are_arrays_text: bool = False
) -> str | None:
    """Return the form for values captured as JSON, for which the lake may store any type as text, array or struct.

    Current-state tables store infinite dates and timestamps as the first or last ones.

    Args:
        column: The column in PostgreSQL.
        lake: Its type in the lake.
        are_arrays_text: True if arrays are captured as PostgreSQL writes them, as by PgQ's triggers.
    """
    from pgsluice.lake.nested import is_nested

    is_document = column.is_core and (column.type_name in _JSON or column.type_name.endswith("[]"))
    if _is_text(lake):
        if column.type_name in _JSON and column.key_position:
            return "text"  # a key may be a JSON null, and cannot be null
        if are_arrays_text and column.type_name.endswith("[]"):
            return "text"
        return "document" if is_document else "json" if column.is_core else "text"
    if is_nested(lake):
        return "document" if is_document else None
    form = own_form(column, lake)
    return f"{form}_bounded" if form in ("micros", "days") else form


def _is_text(lake: pa.DataType) -> bool:
    import pyarrow.types as t

    return bool(t.is_string(lake) or t.is_large_string(lake))


def _float_form(name: str, bits: int) -> str | None:
    if name == "real":
        return "float4" if bits == 32 else "float8"
    return "float8" if name == "double precision" and bits == 64 else None


def _holds_stamp(name: str, lake: Any) -> bool:
    import pyarrow.types as t

    if not t.is_timestamp(lake) or lake.unit != "us":
        return False
    # Spark's timestamp type has a time zone, even for values without one.
    return name == "timestamp without time zone" or (
        name == "timestamp with time zone" and lake.tz is not None
    )
