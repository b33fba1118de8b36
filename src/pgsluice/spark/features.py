"""Classes of PySpark's data source API that depend on its version, with fallbacks for the versions without them.

DataSourceStreamArrowWriter     4.1; Spark 4.0 passes Arrow data to any writer that is a DataSourceArrowWriter.
pushFilters                     4.1; before, the option `pushdown` is refused.
admission control               4.2: getDefaultReadLimit, the arguments of latestOffset, SupportsTriggerAvailableNow.
                                Before, `WithoutLimits` adapts the readers, and the option `lowLatency` is refused.
to_arrow_schema(timezone=…)     4.2; before, times are in UTC by default.

All are decided by what the installed package defines, never by its version number.
"""

from __future__ import annotations

import copy
import importlib.util
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyspark
from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
)
from pyspark.sql.pandas import types
from pyspark.sql.types import StructType

from pgsluice.errors import ConfigurationError

__all__ = [
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxFiles",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "WithoutLimits",
    "require_filters",
    "require_limits",
    "stream_reader",
    "to_arrow_schema",
]

HAS_FILTERS = hasattr(datasource, "Filter")
HAS_LIMITS = importlib.util.find_spec("pyspark.sql.streaming.datasource") is not None

if HAS_LIMITS:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxFiles,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
else:

    class ReadLimit:  # type: ignore[no-redef]
        """Limit of a micro-batch."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[misc, no-redef]
        """No limit."""

    @dataclass
    class ReadMaxRows(ReadLimit):  # type: ignore[misc, no-redef]
        """Maximum rows of a micro-batch."""

        max_rows: int

    @dataclass
    class ReadMaxFiles(ReadLimit):  # type: ignore[misc, no-redef]
        """Maximum files of a micro-batch."""

        max_files: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Reader that can end with the data of its start."""


if hasattr(datasource, "DataSourceStreamArrowWriter"):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(DataSourceArrowWriter, DataSourceStreamWriter):  # type: ignore[misc, no-redef]
        """Writer of a stream that receives Arrow data."""


class LimitedReader(Protocol):
    """Stream reader written for admission control."""

    def initialOffset(self) -> dict[str, Any]: ...
    def getDefaultReadLimit(self) -> ReadLimit: ...
    def prepareForTriggerAvailableNow(self) -> None: ...
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]: ...
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]: ...
    def commit(self, end: dict[str, Any]) -> None: ...
    def stop(self) -> None: ...
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]: ...


class WithoutLimits(DataSourceStreamReader):  # type: ignore[misc]
    """Adapt a reader to PySpark 4.0 and 4.1, whose `latestOffset` has neither the start nor a limit.

    The start is known: it is the initial offset of a new query, the end of the last range for which a restarted query
    requested partitions, or else the last end returned.

    The trigger is not known, and `Trigger.AvailableNow` requests one offset only. So the first micro-batch after each
    start has everything, and only the later ones are limited.
    """

    def __init__(self, reader: LimitedReader) -> None:
        self.reader = reader
        self.last: dict[str, Any] | None = None
        self.is_first = True

    def initialOffset(self) -> dict[str, Any]:
        return self.reader.initialOffset()

    def latestOffset(self) -> dict[str, Any]:
        start = self.reader.initialOffset() if self.last is None else self.last
        if self.is_first:
            # A copy, as preparing a reader fixes its end for good.
            prepared = copy.deepcopy(self.reader)
            try:
                prepared.prepareForTriggerAvailableNow()
                self.last = prepared.latestOffset(start, ReadAllAvailable())
            finally:
                prepared.stop()
        else:
            self.last = self.reader.latestOffset(start, self.reader.getDefaultReadLimit())
        self.is_first = False
        return self.last

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
        if self.last is None:
            # A restarted query asks for the partitions of its last micro-batch first, or of its empty rest.
            self.last = end
        return self.reader.partitions(start, end)

    def commit(self, end: dict[str, Any]) -> None:
        self.reader.commit(end)

    def stop(self) -> None:
        self.reader.stop()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.reader.read(partition)


def stream_reader(reader: LimitedReader) -> DataSourceStreamReader:
    """Return the reader in the form that the installed PySpark calls."""
    return reader if HAS_LIMITS else WithoutLimits(reader)


def require_filters() -> None:
    """Raise ConfigurationError if PySpark does not pass filters to a data source."""
    if not HAS_FILTERS:
        raise _too_old("pushdown", "4.1", "omit it")


def require_limits() -> None:
    """Raise ConfigurationError if PySpark has no admission control, which the option `lowLatency` needs.

    Without it, Spark would read the whole backlog into the memory of the driver.
    """
    if not HAS_LIMITS:
        raise _too_old("lowLatency", "4.2", "omit it")


def to_arrow_schema(schema: StructType) -> pa.Schema:
    """Return Spark's Arrow schema for a Spark schema, with times in UTC."""
    if "timezone" in inspect.signature(types.to_arrow_schema).parameters:
        return types.to_arrow_schema(schema, timezone="UTC")
    return types.to_arrow_schema(schema)


def _too_old(option: str, since: str, hint: str) -> ConfigurationError:
    return ConfigurationError(
        f"the option {option} requires PySpark {since} or newer, and this is {pyspark.__version__}; {hint}"
    )
