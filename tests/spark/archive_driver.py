"""A program of its own that copies the archive of the queue `orders`, drops it, and can be held at a step.

    python archive_driver.py LAKE STEP FOLDER KIND

It leaves the file FOLDER/held and stops for ever when it comes to the STEP, so that it can be killed there:

    read       the archive is read as a transaction sees it, nothing is written
    files      the lake's files are written, and belong to no commit
    commit     the lake has them, nothing is verified
    verify     the first messages are verified
    verified   all are verified, nothing is dropped
    drop       the first messages are dropped in a transaction that is open
    dropped    the first messages are dropped, others are not

With KIND `spark` Spark copies; with `plain` this process does, by the same queries, files and commit: Spark needs
ten seconds to start.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql.types import StructType

from pgsluice.client.calls import spark as calls
from pgsluice.client.calls import spark_exports
from pgsluice.spark.access import Access
from pgsluice.spark.arrow_io import read_batches
from pgsluice.spark.batch import ARCHIVE_SCHEMA
from pgsluice.spark.lake import delta
from pgsluice.spark.lake.archived import IdRange, read_again
from pgsluice.spark.lake.delta import DeltaSink
from pgsluice.spark.lake.sink import LakeBatchWriter
from pgsluice.spark.lake.table import LakeTable
from pgsluice.spark.pipelines import archive
from pgsluice.spark.pipelines.archive import ArchiveCopy, ArchiveProgress, Source
from pgsluice.spark.schemas import arrow_schema

LAKE, STEP, FOLDER, KIND = sys.argv[1:]
EVERYTHING = IdRange(-(2**63), 2**63 - 1)


def reached(step: str, *, wanted: str = STEP, folder: str = FOLDER) -> None:
    if step == wanted:
        Path(folder, "held").touch()
        threading.Event().wait()


class HeldWriter(LakeBatchWriter):
    # Spark's process for the commit does not know this program's arguments.
    step, folder = STEP, FOLDER

    def commit(self, messages: Any) -> None:
        reached("files", wanted=self.step, folder=self.folder)
        super().commit(messages)
        reached("commit", wanted=self.step, folder=self.folder)


class HeldSink(DeltaSink):
    def writer(self, schema: StructType, overwrite: bool) -> LakeBatchWriter:
        return HeldWriter(super().writer(schema, overwrite).table, self.options)


class HeldCopy(ArchiveCopy):
    def copy(self, reader: Any, backlog: Any) -> None:
        reached("read")
        if KIND == "spark":
            super().copy(reader, backlog)
        else:
            self.copy_plainly(reader)

    def copy_plainly(self, reader: Any) -> None:
        names = arrow_schema(ARCHIVE_SCHEMA).names
        queries = self._ask(reader, spark_exports.export_slices("orders", "lake", 2, names))
        prepare = calls.use_snapshot(self._ask(reader, calls.export_snapshot()))
        there = DeltaTable(str(self.place))
        known = {msg_id for found in read_again(there, EVERYTHING) for msg_id in found.msg_ids}
        table = LakeTable.of(str(self.place), ARCHIVE_SCHEMA)
        files = []
        for part, query in enumerate(queries):
            batches = read_batches(self.source.access, query, table.arrow_schema, prepare=prepare)
            new = (
                batch.filter([msg_id not in known for msg_id in batch.column("msg_id").to_pylist()])
                for batch in batches
            )
            files += table.write(new, part=part)
        reached("files")
        last = there.transaction_version(self.source.app_id)
        version = 0 if last is None else last + 1
        table.commit(files, app_id=self.source.app_id, version=version)
        reached("commit")

    def verify(self, database: Any, backlog: Any) -> None:
        super().verify(database, backlog)
        reached("verified")

    def drop(self, database: Any) -> None:
        with database.transaction():
            self._ask(database, spark_exports.drop_exported("orders", 10))
            reached("drop")
        super().drop(database)

    def _report(self, **changes: Any) -> None:
        super()._report(**changes)
        reached("verify" if "verified" in changes else "dropped" if "dropped" in changes else "")


def main() -> None:
    delta.DeltaSink = HeldSink  # type: ignore[misc]
    archive._VERIFY_ROWS = archive._DROP_ROWS = 10
    if KIND == "spark":
        from pgsluice.spark.session import spark_session

        # See FAST_JVM in conftest.py.
        conf = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
        spark_session("pgsluice archive driver", conf=conf)
    source = Source("orders", "archive", "lake", Access(dsn_env="PGSLUICE_DSN"))
    HeldCopy(source, Path(LAKE), ArchiveProgress()).run(drop=True)


if __name__ == "__main__":
    main()
