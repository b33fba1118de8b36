"""Apply micro-batches to the current-state tables, each at once, or several together at intervals."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from pyspark import SparkContext

from pgsluice.lake.current_tables import Applied, read_applied, write_applied
from pgsluice.lake.table import LakeTable
from pgsluice.pipelines.current_state.apply import CurrentStates
from pgsluice.pipelines.current_state.event_files import Written, tasks_on
from pgsluice.pipelines.current_state.pending import Pending
from pgsluice.spark.retry import with_retries


class Applier:
    """Applies the micro-batches of one stream, in the stream's thread or another.

    Args:
        states: The current-state tables.
        events: The table of events.
        pending: Micro-batches not yet applied.
        every_s: Minimum time between two applications in seconds; 0 to apply each micro-batch at once.
    """

    def __init__(
        self, states: CurrentStates, events: LakeTable, pending: Pending, *, every_s: float
    ) -> None:
        self.every_s = every_s
        self._states, self._events, self._pending = states, events, pending
        self._lock = threading.Lock()
        self._due_at = 0.0
        self._applied = read_applied(states.lake)
        if not every_s and self._applied is not None:
            self._note(None)

    def add(self, context: SparkContext, app_id: str, batch_id: int, written: Written) -> None:
        """Add a micro-batch whose events are in the lake, and apply all if it is time."""
        with self._lock:
            if not self.every_s:
                self._apply(context, app_id, {**self._pending.all(), batch_id: written})
                return
            if self._applied is None or self._applied.app_id != app_id:
                self._note(Applied(app_id, batch_id - 1))
            self._pending.add(batch_id, written)
            self._apply_if_due(context, app_id)

    def apply_pending(self, context: SparkContext, app_id: str, *, now: bool = False) -> None:
        """Apply the pending micro-batches if it is time, or `now`."""
        with self._lock:
            self._apply_if_due(context, app_id, now=now)

    def _apply_if_due(self, context: SparkContext, app_id: str, *, now: bool = False) -> None:
        if now or time.monotonic() >= self._due_at:
            found = self._pending.all()
            if found:
                self._apply(context, app_id, found)

    def _apply(self, context: SparkContext, app_id: str, batches: Mapping[int, Written]) -> None:
        folder = self._events.folder
        files = {
            batch_id: [folder / file.path for file in written.files]
            for batch_id, written in batches.items()
        }
        rows = sum(written.row_count for written in batches.values())
        tables = frozenset(table for written in batches.values() for table in written.tables)
        marks = sorted(mark for written in batches.values() for mark in written.marks)
        tasks = tasks_on(context, row_count=rows)
        with_retries(
            lambda: self._states.apply(
                files, tables, marks=marks, row_count=rows, app_id=app_id, tasks=tasks
            )
        )
        # After a crash before this, tables that have these micro-batches skip them.
        self._pending.remove(max(batches))
        if self.every_s:
            self._note(Applied(app_id, max(batches)))
        self._due_at = time.monotonic() + self.every_s

    def _note(self, applied: Applied | None) -> None:
        write_applied(self._states.lake, applied)
        self._applied = applied
