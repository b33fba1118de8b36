"""A program that streams an event log into the lake, and can be held at a commit.

    python driver.py LAKE CHECKPOINT MOMENT FOLDER OFFSETS

With MOMENT `before N` or `after N` the driver creates the file FOLDER/held before or after the lake
commit of micro-batch N and sleeps forever, so that it can be killed there. With `between` it
creates the file when its first micro-batch is committed and the next one is due in a day. With
`never` it runs until it is killed. OFFSETS is `ticks` or `snapshots`.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from pyspark.sql.types import StructType

from pgsluice.pipelines.events import EventStream, events
from pgsluice.pipelines.options import StreamOptions
from pgsluice.spark import lake_source
from pgsluice.spark.lake_sink import LakeStreamWriter
from pgsluice.spark.lake_source import DeltaSource, IcebergSource
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


class HeldSink(DeltaSource):
    def streamWriter(self, schema: StructType, overwrite: bool) -> LakeStreamWriter:
        return held(super().streamWriter(schema, overwrite))


class HeldIcebergSink(IcebergSource):
    def streamWriter(self, schema: StructType, overwrite: bool) -> LakeStreamWriter:
        return held(super().streamWriter(schema, overwrite))


def held(writer: LakeStreamWriter) -> HeldWriter:
    return HeldWriter(writer.table, writer.checkpoint)


def main() -> None:
    lake_source.DeltaSource = HeldSink  # type: ignore[misc]
    lake_source.IcebergSource = HeldIcebergSink  # type: ignore[misc]
    # See FAST_JVM in conftest.py.
    conf = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    stream = events(
        "log",
        LAKE,
        CHECKPOINT,
        offsets=OFFSETS,
        spark=spark_session("pgsluice driver", master="local[2,4]", conf=conf),
        reading=StreamOptions(
            trigger_s=86_400 if WHEN == "between" else 0.1, max_rows_per_trigger=200
        ),
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
