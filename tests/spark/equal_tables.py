"""Comparison of current-state tables with PostgreSQL by readers that are not pgsluice's."""

from __future__ import annotations

import math
import struct
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
from deltalake import DeltaTable
from psycopg import sql

from pgsluice.lake.current_tables import OWN_COLUMNS, Tables, captured_column
from pgsluice.lake.names import TableName
from pgsluice.lake.tables import exists
from spark.lake_reading import ICEBERG, delta_rs_rows, has_rows, iceberg_rows
from support import rows

_ENDS = {"infinity": "9999-12-31T23:59:59.999999", "-infinity": "0001-01-01T00:00:00"}


def in_lake(place: str) -> tuple[dict[str, pa.DataType], list[dict[str, Any]]]:
    """Return the columns and rows of a current-state table, read by delta-rs or pyiceberg."""
    if not has_rows(place):
        return {}, []
    table = iceberg_rows(place) if place.startswith(ICEBERG) else delta_rs_rows(DeltaTable(place))
    names = [name for name in table.column_names if name not in OWN_COLUMNS]
    there = [row for row in table.to_pylist() if not row["_deleted"]]
    kinds = {captured_column(name): table.schema.field(name).type for name in names}
    return kinds, [{captured_column(name): row[name] for name in names} for row in there]


def in_postgresql(
    connection: psycopg.Connection, name: TableName
) -> tuple[dict[str, str], list[dict[str, str | None]]]:
    """Return the columns and rows of a table, values as their text in JSON."""
    kinds = dict(
        rows(
            connection,
            """select attname::text, format_type(atttypid, null) from pg_attribute
            where attrelid = %s::regclass and attnum > 0 and not attisdropped and attgenerated <> 'v' order by attnum""",
            str(name),
        )
    )
    columns = [
        sql.SQL(
            "case when json_typeof({0}::json) <> 'null' then {0}::text end as {0}"
            if kind in ("json", "jsonb")
            else "case when {0} is distinct from null then concat({0}) end as {0}"
            if kind.split(".")[-1] in ("mood", "spot")
            else "to_json({0}) #>> '{{}}' as {0}"
        ).format(sql.Identifier(column))
        for column, kind in kinds.items()
    ]
    query = sql.SQL("select {} from {}").format(
        sql.SQL(", ").join(columns), sql.Identifier(name.schema, name.table)
    )
    with connection.transaction():
        connection.execute("set local timezone = 'UTC'")
        found = connection.execute(query).fetchall()
    return kinds, [dict(zip(kinds, row, strict=True)) for row in found]


def comparable(value: Any, kind: pa.DataType) -> object:
    """Return a value, or its text in PostgreSQL, so that equal values of a type of the lake are equal."""
    try:
        return _comparable(value, kind)
    except (ValueError, ArithmeticError):
        # No value of this type, as after a schema change that the lake does not follow.
        return str(value)


def _comparable(value: Any, kind: pa.DataType) -> object:
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if value is None or any(is_text(kind) for is_text in texts):
        return value
    text = str(value)
    if pa.types.is_boolean(kind):
        return text.lower()
    if pa.types.is_integer(kind):
        return int(text)
    if pa.types.is_floating(kind):
        number = float(text) + 0.0  # makes -0 equal to 0
        width = "f" if pa.types.is_float32(kind) else "d"
        return "NaN" if math.isnan(number) else struct.pack(width, number)
    if pa.types.is_decimal(kind):
        return Decimal(text)
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat(_ENDS.get(text, text)).replace(tzinfo=UTC)
    if pa.types.is_date(kind):
        return _ENDS.get(text, text)[:10]
    is_binary = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    if any(is_kind(kind) for is_kind in is_binary):
        return value if isinstance(value, bytes) else bytes.fromhex(text.removeprefix("\\x"))
    raise AssertionError(f"a column has type {kind}")


def difference(connection: psycopg.Connection, current: Tables, name: TableName) -> str | None:
    """Return how a table differs in the lake; None if it does not."""
    if not rows(connection, "select where to_regclass(%s) is not null", str(name)):
        return "no table in PostgreSQL"
    columns, there = in_postgresql(connection, name)
    if not exists(current.place_of(name)):
        return None if not there else "no table in the lake"
    kinds, found = in_lake(str(current.place_of(name)))
    if not there and not found:
        return None  # a table without rows gets its columns with the first
    if set(columns) != set(kinds):
        return f"columns {sorted(columns)} in PostgreSQL, {sorted(kinds)} in the lake"
    both = [
        Counter(tuple(comparable(row[c], kinds[c]) for c in columns) for row in side)
        for side in (there, found)
    ]
    if both[0] == both[1]:
        return None
    return f"only in PostgreSQL: {both[0] - both[1]}, only in the lake: {both[1] - both[0]}"
