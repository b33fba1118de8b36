"""A program that copies and drops the archive of the queue `orders`, and can be held at a step.

    python archive_driver.py LAKE STEP FOLDER KIND

At the STEP it creates the file FOLDER/held and sleeps forever, so that it can be killed there:

    read       the archive is read in a transaction, nothing is written
    files      the lake's files are written, without a commit
    commit     the files are committed, nothing is verified
    verify     the first messages are verified
    verified   all are verified, nothing is dropped
    drop       the first messages are dropped in an open transaction
    dropped    the first messages are dropped, the others are not

With KIND `spark` Spark copies; with `plain` this process does, see plain_copy.py.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from pgsluice.client.calls import spark_exports
from pgsluice.lake.address import parse
from pgsluice.pipelines import archive
from pgsluice.pipelines.archive import ArchiveCopy, ArchiveProgress, CopySource
from pgsluice.spark import lake_source
from pgsluice.spark.access import Access
from pgsluice.spark.lake_sink import LakeBatchWriter
from pgsluice.spark.lake_source import DeltaSource, IcebergSource

sys.path.insert(0, str(Path(__file__).parent.parent))
from spark.plain_copy import PlainCopy

LAKE, STEP, FOLDER, KIND = sys.argv[1:]


def reached(step: str, *, wanted: str = STEP, folder: str = FOLDER) -> None:
    if step == wanted:
        Path(folder, "held").touch()
        threading.Event().wait()


class HeldWriter(LakeBatchWriter):
    # Spark's commit process does not have this program's arguments.
    step, folder = STEP, FOLDER

    def commit(self, messages: Any) -> None:
        reached("files", wanted=self.step, folder=self.folder)
        super().commit(messages)
        reached("commit", wanted=self.step, folder=self.folder)


class _Held:
    def writer(self, schema: StructType, overwrite: bool) -> LakeBatchWriter:
        table = super().writer(schema, overwrite).table  # type: ignore[misc]
        return HeldWriter(table, self.options, overwrite=overwrite)  # type: ignore[attr-defined]


class HeldSink(_Held, DeltaSource):
    pass


class HeldIcebergSink(_Held, IcebergSource):
    pass


class HeldCopy(PlainCopy):
    def copy(self, reader: Any, backlog: Any) -> None:
        reached("read")
        if KIND == "spark":
            ArchiveCopy.copy(self, reader, backlog)
        else:
            super().copy(reader, backlog)

    def reached(self, step: str) -> None:
        reached(step)

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
    lake_source.DeltaSource = HeldSink  # type: ignore[misc]
    lake_source.IcebergSource = HeldIcebergSink  # type: ignore[misc]
    archive._VERIFY_ROWS = archive._DROP_ROWS = 10
    if KIND == "spark":
        from pgsluice.spark.session import spark_session

        # See FAST_JVM in conftest.py.
        conf = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
        spark_session("pgsluice archive driver", conf=conf)
    source = CopySource("orders", "archive", "lake", Access(dsn_env="PGSLUICE_DSN"))
    HeldCopy(source, parse(LAKE), ArchiveProgress()).run(drop=True)


if __name__ == "__main__":
    main()
