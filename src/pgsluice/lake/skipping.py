"""Skip files that cannot contain a matching row, by their statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

# Delta's writers cut off the microseconds of a maximum.
_TIME_STEP = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Condition:
    """Condition that matching rows meet.

    Attributes:
        column: Name of a column.
        test: `=`, `<`, `<=`, `>`, `>=`, `in`, `starts with`, `is null` or `is not null`.
        value: Value of the column's type; a tuple of them for `in`; None for the last two.
    """

    column: str
    test: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class Range:
    """Statistics of one column of a file; None where unknown.

    Attributes:
        low: Lower bound of the values that are not null.
        high: Upper bound.
        nulls: Number of nulls.
        rows: Number of rows.
    """

    low: Any = None
    high: Any = None
    nulls: int | None = None
    rows: int | None = None

    def may_hold(self, condition: Condition) -> bool:
        """Return False if no row of the file meets the condition."""
        if condition.test == "is null":
            return self.nulls != 0
        if self.nulls is not None and self.nulls == self.rows:
            return False
        if self.low is None or self.high is None or condition.test == "is not null":
            return True
        low, high = self.low, self.high
        if isinstance(high, datetime):
            high += _TIME_STEP
        match condition.test:
            case "=":
                return bool(low <= condition.value <= high)
            case "in":
                return any(low <= value <= high for value in condition.value)
            case "<":
                return bool(low < condition.value)
            case "<=":
                return bool(low <= condition.value)
            case ">":
                return bool(high > condition.value)
            case ">=":
                return bool(high >= condition.value)
            case "starts with":
                start = condition.value
                return bool(low[: len(start)] <= start <= high[: len(start)])
        return True


def ranges_of(actions: Mapping[str, list[Any]], at: int, columns: list[str]) -> dict[str, Range]:
    """Return the statistics of one file of a Delta table.

    Args:
        actions: Columns of the table's flattened add actions.
        at: Index of the file.
        columns: The columns to return.
    """
    rows = actions["num_records"][at]
    found = {}
    for name in columns:
        if (values := actions.get(f"partition.{name}")) is not None:
            value = values[at]
            found[name] = Range(value, value, rows if value is None else 0, rows)
        else:
            low, high, nulls = (
                actions[key][at] if (key := f"{part}.{name}") in actions else None
                for part in ("min", "max", "null_count")
            )
            found[name] = Range(low, high, nulls, rows)
    return found
