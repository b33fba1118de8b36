"""Apply micro-batches to the current-state tables, each at once or several together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from pgsluice.lake.current_tables import Applied, write_applied
from pgsluice.lake.names import TableName
from pgsluice.lake.table import LakeTable
from pgsluice.pipelines.current_state.apply import CurrentStates
from pgsluice.pipelines.current_state.event_files import Written
from pgsluice.pipelines.current_state.pending import Pending
from pgsluice.pipelines.current_state.pieces import Tasks
from pgsluice.spark.retry import with_retries

# By default, an update rewrites at most this many rows per change, or is made after this time in seconds.
ROWS_PER_CHANGE = 50
LONGEST_S = 900.0


class Applier:
    """Applies the micro-batches of one stream, in the stream's thread or another.

    Args:
        states: The current-state tables.
        events: The table of events.
        pending: Micro-batches not yet applied.
        tasks: Returns what runs the tasks for a number of events.
        has_sink: True if a sink in another process adds micro-batches to `pending`, instead of `add`.
        every_s: Minimum time between two applications in seconds; 0 to apply each micro-batch at once; None to apply
            when the tables with changes have at most `ROWS_PER_CHANGE` rows per change, a snapshot begins or ends, or
            `LONGEST_S` have passed since the last application.
    """

    def __init__(
        self,
        states: CurrentStates,
        events: LakeTable,
        pending: Pending,
        *,
        tasks: Callable[[int], Tasks[Any, Any]],
        every_s: float | None,
        has_sink: bool = False,
    ) -> None:
        self.every_s = LONGEST_S if every_s is None else every_s
        self._rows_per_change = ROWS_PER_CHANGE if every_s is None else 0
        self._states, self._events, self._pending = states, events, pending
        self._tasks, self._has_sink = tasks, has_sink
        self._batches = pending.all()
        self._rows: dict[TableName | str, int] = {}
        self._lock = threading.Lock()
        self._due_at = 0.0
        self._is_noted = bool(self._batches)
        if not self._is_noted:
            write_applied(states.lake, None)

    @property
    def is_polled(self) -> bool:
        """True if `apply_pending` must be called again and again."""
        return self._has_sink or self.every_s > 0

    def idle(self) -> AbstractContextManager[object]:
        """Return a context manager during which no changes are applied."""
        return self._lock

    def add(self, app_id: str, batch_id: int, written: Written) -> None:
        """Add a micro-batch whose events are in the lake, and apply all if it is time."""
        with self._lock:
            self._batches[batch_id] = written
            if self._is_due():
                self._apply(app_id)
                return
            if not self._is_noted:
                write_applied(self._states.lake, Applied(app_id, batch_id - 1))
                self._is_noted = True
            self._pending.add(batch_id, written)

    def apply_pending(self, app_id: str, *, now: bool = False) -> None:
        """Apply the pending micro-batches if it is time, or `now`."""
        with self._lock:
            if self._has_sink:
                self._batches |= self._pending.all(after=max(self._batches, default=-1))
            if self._batches and (now or self._is_due()):
                self._apply(app_id)

    def _is_due(self) -> bool:
        if time.monotonic() >= self._due_at:
            return True
        if not self._rows_per_change:
            return False
        batches = self._batches.values()
        if any(written.markers for written in batches):
            return True
        sources = Written.joined(batches).sources
        known = [name for name in self._rows if name in sources.shapes or name in sources.joined]
        rows = sum(self._rows[name] for name in known)
        return rows <= self._rows_per_change * sum(written.row_count for written in batches)

    def _apply(self, app_id: str) -> None:
        folder, batches = self._events.folder, self._batches
        files = {
            batch_id: [folder / file.path for file in written.files]
            for batch_id, written in sorted(batches.items())
        }
        every = Written.joined(batches.values())
        rows, markers = every.row_count, sorted(every.markers)
        tasks = self._tasks(rows)
        self._rows |= with_retries(
            lambda: self._states.apply(
                files, every.sources, markers=markers, row_count=rows, app_id=app_id, tasks=tasks
            )
        )
        # After a crash before this, tables that have these micro-batches skip them.
        self._pending.remove(max(batches))
        self._batches = {}
        if self._has_sink:
            # Kept: the sink may have added a micro-batch meanwhile.
            write_applied(self._states.lake, Applied(app_id, max(batches)))
        elif self._is_noted:
            write_applied(self._states.lake, None)
            self._is_noted = False
        self._due_at = time.monotonic() + self.every_s
