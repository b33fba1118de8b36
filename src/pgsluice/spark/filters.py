"""Translate Spark's filters into conditions for `sluice.filter_queries`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import DataType, StringType

from pgsluice.client.calls.call import is_storable

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

# Tests of a condition by the name of Spark's filter; PySpark 4.0 has no classes for filters.
TESTS = {
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "In": "in",
    "IsNull": "is null",
    "IsNotNull": "is not null",
    "StringStartsWith": "starts with",
    "StringContains": "contains",
}
_NEGATED = {
    "EqualTo": "<>",
    "LessThan": ">=",
    "LessThanOrEqual": ">",
    "GreaterThan": "<=",
    "GreaterThanOrEqual": "<",
    "In": "not in",
    "IsNull": "is not null",
    "IsNotNull": "is null",
}
WITHOUT_VALUE = ("is null", "is not null")
WITH_VALUES = ("in", "not in")
# PostgreSQL orders text by collation, Spark by bytes.
_IN_ORDER = {"<", "<=", ">", ">="}


def condition_of(found: Filter, columns: Mapping[str, DataType]) -> dict[str, Any] | None:
    """Translate a filter into a condition; None if the server might evaluate it differently from Spark.

    Args:
        found: A filter of Spark.
        columns: Columns that are read without a change of type.
    """
    inner, tests = (found.child, _NEGATED) if type(found).__name__ == "Not" else (found, TESTS)
    test = tests.get(type(inner).__name__)
    if test is None:
        return None
    (name, *deeper) = inner.attribute
    kind = columns.get(name)
    if deeper or kind is None or (isinstance(kind, StringType) and test in _IN_ORDER):
        return None
    if test in WITHOUT_VALUE:
        return {"column": name, "test": test}
    value = [_text(one) for one in inner.value] if test in WITH_VALUES else _text(inner.value)
    if value is None or (isinstance(value, list) and None in value):
        return None
    return {"column": name, "test": test, "value": value}


def _text(value: Any) -> str | None:
    """Format a value for PostgreSQL; None if our columns do not have its type."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.isoformat()
    if isinstance(value, str):
        return value if is_storable(value) else None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None
