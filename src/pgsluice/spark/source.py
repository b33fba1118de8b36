"""Spark data source `pgsluice`: select reader and writer by options.

Common options: `dsn` (without a password), `dsnFile` or `dsnEnv` for the connection, by default resolved as
`pgsluice.connection` does; `numPartitions`, the maximum number of concurrent queries (4).

| | option | |
|---|---|---|
| `spark.read` | `queue` or `log` | see `batch` |
| `spark.readStream` | `log` | see `stream` |
| `spark.readStream` | `queue` | see `claim_stream` |
| `write`, `writeStream` | `queue` or `log` | see `sink` |

`.schema("msg_id bigint, message string")` reads only these columns.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from pgsluice.errors import ConfigurationError
from pgsluice.spark import batch
from pgsluice.spark.access import Access
from pgsluice.spark.claim_stream import ClaimStreamReader
from pgsluice.spark.features import require_limits, stream_reader
from pgsluice.spark.low_latency import LowLatencyReader
from pgsluice.spark.options import require_known, truth
from pgsluice.spark.sink import RowBatchWriter, RowStreamWriter, refuse_overwrite
from pgsluice.spark.stream import LogStreamReader


class PgsluiceSource(DataSource):  # type: ignore[misc]
    """Data source `pgsluice`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        require_known(options, PgsluiceSource.name())
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        return "pgsluice"

    def schema(self) -> StructType:
        Access.from_options(self.options)  # report invalid options before planning
        return batch.schema_of(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        return batch.reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if self.options.get("log"):
            if truth(self.options, "lowLatency", default=False):
                require_limits()
                # Makes Spark call simpleStreamReader.
                raise PySparkNotImplementedError(
                    errorClass="NOT_IMPLEMENTED", messageParameters={"feature": "streamReader"}
                )
            return stream_reader(LogStreamReader(self.options, schema))
        if self.options.get("queue"):
            return stream_reader(ClaimStreamReader(self.options, schema))
        raise ConfigurationError(
            "spark.readStream with format pgsluice reads an event log or a work queue; set the option log or queue to "
            "its name"
        )

    def simpleStreamReader(self, schema: StructType) -> LowLatencyReader:
        return LowLatencyReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> RowBatchWriter:
        refuse_overwrite(overwrite)
        return RowBatchWriter(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> RowStreamWriter:
        refuse_overwrite(overwrite)
        return RowStreamWriter(self.options, schema)
