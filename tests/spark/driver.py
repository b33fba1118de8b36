"""A program of its own that streams an event log into the lake, and can be held at a moment.

    python driver.py LAKE CHECKPOINT MOMENT FOLDER OFFSETS

MOMENT is `before N` or `after N`: the driver stops for ever before or after the lake's commit of
micro-batch N, and leaves the file FOLDER/held, so that it can be killed there. With `between` it leaves the
file when its first micro-batch is done and the next is a day away. With `never` it runs until it is killed. OFFSETS is `ticks` or `snapshots`.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from pyspark.sql.types import StructType

from pgsluice.pipelines.events import EventStream, events
from pgsluice.spark import lake_sink
from pgsluice.spark.lake_sink import DeltaSink, IcebergSink, LakeStreamWriter
from pgsluice.spark.session import spark_session

sys.path.insert(0, str(Path(__file__).parent.parent))
from support import wait_until

LAKE, CHECKPOINT, MOMENT, FOLDER, OFFSETS = sys.argv[1:]
WHEN, _, NUMBER = MOMENT.partition(" ")


class HeldWriter(LakeStreamWriter):
    when, number, folder = WHEN, int(NUMBER or -1), FOLDER

    def commit(self, messages, batchId):
        self.hold("before", batchId)
        super().commit(messages, batchId)
        self.hold("after", batchId)

    def hold(self, when: str, number: int) -> None:
        if (when, number) == (self.when, self.number):
            Path(self.folder, "held").touch()
            threading.Event().wait()


class HeldSink(DeltaSink):
    def streamWriter(self, schema: StructType, overwrite: bool) -> LakeStreamWriter:
        return HeldWriter(super().streamWriter(schema, overwrite).table)


class HeldIcebergSink(IcebergSink):
    def streamWriter(self, schema: StructType, overwrite: bool) -> LakeStreamWriter:
        return HeldWriter(super().streamWriter(schema, overwrite).table)


def main() -> None:
    lake_sink.DeltaSink = HeldSink  # type: ignore[misc]
    lake_sink.IcebergSink = HeldIcebergSink  # type: ignore[misc]
    # See FAST_JVM in conftest.py.
    conf = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    stream = events(
        "log",
        LAKE,
        CHECKPOINT,
        trigger_s=86_400 if WHEN == "between" else 0.1,
        max_rows_per_trigger=200,
        offsets=OFFSETS,
        # A task that fails is tried again, as on a cluster.
        spark=spark_session("pgsluice driver", master="local[2,4]", conf=conf),
    )
    stream.await_ready(deadline_s=300)
    Path(FOLDER, "ready").touch()
    if WHEN == "between":
        wait_until(lambda: is_between(stream), "the driver to be between micro-batches", 300)
        Path(FOLDER, "held").touch()
    stream.drain()


def is_between(stream: EventStream) -> bool:
    return stream.progress().micro_batches > 0 and not stream.query.status["isTriggerActive"]


if __name__ == "__main__":
    main()
