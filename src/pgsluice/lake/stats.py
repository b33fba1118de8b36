"""Delta's file statistics, used by readers for data skipping.

Every column whose type supports a range gets one. If only some columns of a file have a range, deltalake's pyarrow
dataset treats the others as empty, and filters on them match nothing.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# Truncated as Spark's writer does.
_TEXT_CHARACTERS = 32
_LAST_CHARACTER = "\U0010ffff"
# JSON readers parse numbers as doubles, which are exact up to 15 digits.
_EXACT_DIGITS = 15


class Stats:
    """Row count, null counts, minima and maxima of one file.

    Args:
        schema: Schema of the file.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.row_count = 0
        self._ranged = [f.name for f in schema if has_range(f.type)]
        self._counted = [f.name for f in schema if not pa.types.is_nested(f.type)]
        self._null_count = dict.fromkeys(self._counted, 0)
        self._min: dict[str, Any] = {}
        self._max: dict[str, Any] = {}
        self._unbounded: set[str] = set()

    def add(self, table: pa.Table) -> None:
        """Add rows to the statistics."""
        self.row_count += table.num_rows
        for name in self._counted:
            self._null_count[name] += table.column(name).null_count
        for name in self._ranged:
            column = table.column(name)
            low_high = pc.min_max(column).as_py()
            if low_high["min"] is None:
                continue
            self._min[name] = min(self._min.get(name, low_high["min"]), low_high["min"])
            self._max[name] = max(self._max.get(name, low_high["max"]), low_high["max"])
            if pa.types.is_floating(column.type) and not pc.all(pc.is_finite(column)).as_py():
                self._unbounded.add(name)  # JSON has no infinity, and readers disagree about NaN

    def to_json(self) -> str:
        """Return the statistics as the Delta log stores them."""
        bounded = [name for name in self._min if name not in self._unbounded]
        return json.dumps(
            {
                "numRecords": self.row_count,
                "minValues": {name: _lowest(self._min[name]) for name in bounded},
                "maxValues": {name: _highest(self._max[name]) for name in bounded},
                "nullCount": self._null_count,
            }
        )


def has_range(kind: pa.DataType) -> bool:
    """True if columns of a type have a range, unless they hold NaN or infinity."""
    if pa.types.is_decimal(kind):
        return bool(kind.precision <= _EXACT_DIGITS)
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_string(kind)
    )


def _lowest(value: Any) -> Any:
    return value[:_TEXT_CHARACTERS] if isinstance(value, str) else _as_json(value)


def _highest(value: Any) -> Any:
    if not isinstance(value, str) or len(value) <= _TEXT_CHARACTERS:
        return _as_json(value)
    if value[_TEXT_CHARACTERS] == _LAST_CHARACTER:
        return value
    return value[:_TEXT_CHARACTERS] + _LAST_CHARACTER


def _as_json(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, (bool, int, float, str)):
        return value
    return value.isoformat().replace("+00:00", "Z")
