"""Sink of captured changes for Spark Connect, without a server: what a commit leaves behind."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pgsluice.lake.current_tables import Applied, read_applied
from pgsluice.lake.tables import tables_in
from pgsluice.pipelines.current_state.event_files import EventsWritten, write_part
from pgsluice.pipelines.current_state.event_sink import _Writer
from pgsluice.pipelines.current_state.pending import Pending, pending_folder
from pgsluice.spark.checkpoint import last_written
from pgsluice.spark.lake_tables import table_at
from pgsluice.spark.micro_batch import MicroBatch
from pgsluice.spark.schemas import arrow_schema
from pgsluice.spark.stream import LOG_SCHEMA

QUERY = MicroBatch("query", 0)


class Sink:
    def __init__(self, folder: Path) -> None:
        self.current, self.checkpoint = tables_in(folder / "lake"), folder / "checkpoint"
        self.checkpoint.mkdir()
        self.table = table_at(str(self.current.events), LOG_SCHEMA)
        self.table.create()
        self.writer = _Writer(self.current, self.table, self.checkpoint)

    def commit(self, batch_id: int, *ids: int) -> None:
        schema = arrow_schema(LOG_SCHEMA)
        rows = [{"ev_id": ev_id, "ev_type": "c", "ev_extra1": "public.account"} for ev_id in ids]
        batches = iter([pa.RecordBatch.from_pylist(rows, schema)])
        written = write_part(batches, self.table, 0)
        self.writer.commit([EventsWritten(written, MicroBatch("query", batch_id)), None], batch_id)

    def pending(self) -> dict[int, int]:
        found = Pending(pending_folder(self.checkpoint)).all()
        return {batch_id: written.row_count for batch_id, written in found.items()}


def test_a_commit_is_pending_until_it_is_applied(tmp_path: Path):
    sink = Sink(tmp_path)

    sink.commit(0, 1, 2)
    sink.commit(1, 3)

    assert sink.table.row_count() == 3
    assert sink.pending() == {0: 2, 1: 1}
    assert read_applied(sink.current) == Applied(QUERY.app_id, -1)
    assert last_written(sink.checkpoint, QUERY.app_id) == 1


def test_a_micro_batch_repeated_after_a_crash_is_committed_once_and_pending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    sink = Sink(tmp_path)
    with monkeypatch.context() as patch:

        def crash(*_: object) -> None:
            raise RuntimeError("killed")

        patch.setattr(Pending, "add", crash)
        with pytest.raises(RuntimeError, match="killed"):
            sink.commit(0, 1, 2)
    assert (sink.table.row_count(), sink.pending()) == (2, {})

    sink.commit(0, 1, 2)

    assert (sink.table.row_count(), sink.pending()) == (2, {0: 2})


def test_a_micro_batch_without_tasks_commits_nothing(tmp_path: Path):
    sink = Sink(tmp_path)

    sink.writer.commit([None], 0)

    assert (sink.table.row_count(), sink.pending()) == (0, {})
