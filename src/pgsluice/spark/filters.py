"""Translate Spark's filters into conditions for `sluice.filter_queries`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)
from pyspark.sql.types import DataType, StringType

from pgsluice.client.calls.call import is_storable

# Spark's filters by the test of a condition.
TESTS = {
    EqualTo: "=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    In: "in",
    IsNull: "is null",
    IsNotNull: "is not null",
    StringStartsWith: "starts with",
    StringContains: "contains",
}
_NEGATED = {
    EqualTo: "<>",
    LessThan: ">=",
    LessThanOrEqual: ">",
    GreaterThan: "<=",
    GreaterThanOrEqual: "<",
    In: "not in",
    IsNull: "is not null",
    IsNotNull: "is null",
}
# PostgreSQL orders text by collation, Spark by bytes.
_IN_ORDER = {"<", "<=", ">", ">="}


def condition_of(found: Filter, columns: Mapping[str, DataType]) -> dict[str, Any] | None:
    """Translate a filter into a condition; None if the server might evaluate it differently from Spark.

    Args:
        found: A filter of Spark.
        columns: Columns that are read without a change of type.
    """
    inner, tests = (found.child, _NEGATED) if isinstance(found, Not) else (found, TESTS)
    test = tests.get(type(inner))
    if test is None:
        return None
    (name, *deeper) = inner.attribute
    kind = columns.get(name)
    if deeper or kind is None or (isinstance(kind, StringType) and test in _IN_ORDER):
        return None
    if isinstance(inner, IsNull | IsNotNull):
        return {"column": name, "test": test}
    value = [_text(one) for one in inner.value] if isinstance(inner, In) else _text(inner.value)
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
