"""An event log read on the driver: no task is planned and no executor asked, which halves a small micro-batch's delay.

Spark holds the rows of a micro-batch in the driver's process until the next one is planned, hence the smaller limit
(10000 events), and nothing is read in parallel. After a crash an executor reads a planned micro-batch again: same
offsets, same rows. Offsets are snapshots unless `offsets` says otherwise: a tick would have to be waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pgsluice.spark.stream import LogStreamReader


class LowLatencyReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Read an event log on the driver; what a `LogStreamReader` would read."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.reader = LogStreamReader(options, schema)
        self.is_on_driver = True

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "is_on_driver": False}

    def initialOffset(self) -> dict[str, Any]:
        return self.reader.initialOffset()

    def prepareForTriggerAvailableNow(self) -> None:
        self.reader.prepareForTriggerAvailableNow()

    def read(self, start: dict[str, Any]) -> tuple[Iterator[pa.RecordBatch], dict[str, Any]]:
        end = self.reader.latestOffset(start, self.reader.getDefaultReadLimit())
        # A list: Spark copies the iterator, which a generator does not allow.
        return iter(list(self.readBetweenOffsets(start, end))), end

    def readBetweenOffsets(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        try:
            for partition in self.reader.partitions(start, end):
                yield from self.reader.read(partition)
        finally:
            if not self.is_on_driver:
                self.reader.stop()

    def commit(self, end: dict[str, Any]) -> None:
        self.reader.commit(end)
