"""Stream an event log with low latency: read on the driver, without tasks, which halves a small micro-batch's delay.

The driver keeps the rows of a micro-batch in memory until the next one is planned, hence the smaller limit (10000
events), and reads are not parallel. After a crash an executor replays a planned micro-batch with the same offsets and
rows. Offsets are snapshots by default, as ticks add latency.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

from pgsluice.spark.features import SupportsTriggerAvailableNow
from pgsluice.spark.stream import LogStreamReader


class LowLatencyReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Read an event log on the driver; same offsets and rows as `LogStreamReader`."""

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
        # Spark copies the iterator, and generators cannot be copied.
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
