"""A program that streams an event log into a work queue, and the queue into the lake.

    python driver_queues.py LAKE CHECKPOINT MOMENT FOLDER OFFSETS

With MOMENT `before N` or `after N` each stream creates the file FOLDER/held-queue or
FOLDER/held-lake before or after its commit of micro-batch N, and sleeps forever. With `never` they
run until they are killed, with `once` until all events are in the lake.
"""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pgsluice.spark import retry, running
from pgsluice.spark.lake_sink import LakeStreamWriter
from pgsluice.spark.lake_source import DeltaSource
from pgsluice.spark.retry import with_retries
from pgsluice.spark.running import RunningStream
from pgsluice.spark.session import spark_session
from pgsluice.spark.sink import RowStreamWriter
from pgsluice.spark.source import PgsluiceSource

sys.path.insert(0, str(Path(__file__).parent.parent))
from support import wait_until

# On a busy machine, Spark's processes often start too late.
running.STARTS_MAX = retry.STARTS_MAX = 50
LAKE, CHECKPOINT, MOMENT, FOLDER, OFFSETS = sys.argv[1:]
# Small micro-batches, so that there are some before and after each kill; large ones for the final
# run.
ROWS, MESSAGES = ("5000", "5000") if MOMENT == "once" else ("50", "10")
WHEN, _, NUMBER = MOMENT.partition(" ")
AT = (WHEN, int(NUMBER or -1))


def hold(at: tuple[str, int], wanted: tuple[str, int], mark: Path) -> None:
    if at == wanted:
        mark.touch()
        threading.Event().wait()


class HeldQueueWriter(RowStreamWriter):
    at, mark = AT, Path(FOLDER, "held-queue")

    def commit(self, messages, batchId):
        hold(("before", batchId), self.at, self.mark)
        super().commit(messages, batchId)
        hold(("after", batchId), self.at, self.mark)


class HeldQueue(PgsluiceSource):
    @classmethod
    def name(cls) -> str:
        return "held-queue"

    def streamWriter(self, schema: StructType, overwrite: bool) -> HeldQueueWriter:
        return HeldQueueWriter(self.options, schema)


class HeldLakeWriter(LakeStreamWriter):
    at, mark = AT, Path(FOLDER, "held-lake")

    def commit(self, messages, batchId):
        hold(("before", batchId), self.at, self.mark)
        super().commit(messages, batchId)
        hold(("after", batchId), self.at, self.mark)


class HeldLake(DeltaSource):
    @classmethod
    def name(cls) -> str:
        return "held-lake"

    def streamWriter(self, schema: StructType, overwrite: bool) -> HeldLakeWriter:
        return HeldLakeWriter(super().streamWriter(schema, overwrite).table)


class Stream(RunningStream):
    """A stream that is restarted when a process of Spark starts too late."""

    def settle(self) -> None:
        pass


def stream(
    spark: SparkSession, source: dict[str, str], columns: list[str], sink: str, **places: str
) -> Stream:
    rows = with_retries(lambda: spark.readStream.format("pgsluice").options(**source).load())
    writer = rows.selectExpr(*columns).writeStream.format(sink).options(**places)
    writer = writer.option("checkpointLocation", f"{CHECKPOINT}/{sink}")
    once = {"availableNow": True} if MOMENT == "once" else {"processingTime": "100 milliseconds"}
    query = Stream(writer.trigger(**once), what=sink, cleanup=ExitStack())
    if MOMENT == "once":
        query.drain()
    # Start one stream after the other: starting both at once takes twice as long.
    offsets = Path(CHECKPOINT, sink, "offsets", "0")
    wait_until(lambda: query.has_ended() or offsets.exists(), f"{sink} to start", 600)
    return query


def main() -> None:
    # See FAST_JVM in conftest.py.
    conf = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    spark = spark_session("pgsluice driver of queues", master="local[2,4]", conf=conf)
    spark.dataSource.register(HeldQueue)
    spark.dataSource.register(HeldLake)
    log = {"log": "log", "consumer": "into queue", "maxRowsPerTrigger": ROWS, "offsets": OFFSETS}
    message = "to_json(struct(ev_data as data)) as message"
    queue = {"queue": "orders", "consumer": "into lake", "maxRowsPerTrigger": MESSAGES}
    first = stream(spark, log, [message], "held-queue", queue="orders")
    second = stream(spark, queue, ["msg_id", "message"], "held-lake", path=LAKE)
    Path(FOLDER, "ready").touch()
    while not first.has_ended() or not second.has_ended():
        threading.Event().wait(0.1)


if __name__ == "__main__":
    main()
