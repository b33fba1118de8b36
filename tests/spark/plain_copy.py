"""The pipeline `archive` without Spark, with the same queries, files, commits and steps."""

from __future__ import annotations

from typing import Any

from pgsluice.client.calls import spark as calls
from pgsluice.lake.archived import IdRange, open_archived, read_again
from pgsluice.pipelines.archive import ArchiveCopy
from pgsluice.spark.arrow_io import read_batches
from pgsluice.spark.batch import ARCHIVE_SCHEMA
from pgsluice.spark.lake_tables import table_at
from pgsluice.spark.schemas import arrow_schema

EVERYTHING = IdRange(-(2**63), 2**63 - 1)


class PlainCopy(ArchiveCopy):
    """A copy made by this process instead of Spark."""

    def copy(self, reader: Any, backlog: Any) -> None:
        source = self.source
        names = arrow_schema(ARCHIVE_SCHEMA).names
        queries = self._ask(
            reader, calls.queue_slices(source.queue, "archive", 2, names, source.export)
        )
        prepare = calls.use_snapshot(self._ask(reader, calls.export_snapshot()))
        there = open_archived(self.place)
        known = {msg_id for found in read_again(there, EVERYTHING) for msg_id in found.msg_ids}
        table = table_at(str(self.place), ARCHIVE_SCHEMA)
        files = []
        for part, query in enumerate(queries):
            batches = read_batches(source.access, query, table.arrow_schema, prepare=prepare)
            new = (
                batch.filter([msg_id not in known for msg_id in batch.column("msg_id").to_pylist()])
                for batch in batches
            )
            files += table.write(new, part=part)
        self.reached("files")
        last = there.last_version(source.app_id)
        table.commit(files, app_id=source.app_id, version=0 if last is None else last + 1)
        self.reached("commit")

    def reached(self, step: str) -> None:
        """Do nothing; subclasses stop at a step here."""
