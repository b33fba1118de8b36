"""Running streaming queries: progress, waiting, graceful stop, and restart after a start timeout."""

from __future__ import annotations

import ast
import atexit
import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from pgsluice.errors import LogStateError, SluiceError
from pgsluice.spark.failure import is_start_timeout, translated

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

STARTS_MAX = 4
_POLL_S = 0.1
_REPORTS_KEPT = 1000


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a pipeline.

    Attributes:
        rows: Rows written by this run.
        micro_batches: Number of micro-batches, or commits, with rows.
        offset: Offset up to which everything is written, in the format of the source; None before Spark's first
            progress report, or without a stream.
        batch_duration_s: Duration of the last micro-batch with rows in seconds; 0.0 before the first.
        rows_left: Rows of the source that are not written yet, approximately; None if unknown.
        parked: Tables whose changes cannot be applied; see `pgsluice.pipelines.changes`.
    """

    rows: int = 0
    micro_batches: int = 0
    offset: Mapping[str, Any] | None = None
    batch_duration_s: float = 0.0
    rows_left: int | None = None
    parked: Sequence[str] = ()


def _with_rows(counts: Iterable[int]) -> int:
    return sum(1 for rows in counts if rows)


def _reports_since(query: StreamingQuery, batch_id: int) -> Sequence[Mapping[str, Any]]:
    """Return the progress reports that Spark keeps, in order, at least those from a micro-batch on.

    `query.recentProgress` converts all that are kept, a millisecond each.
    """
    java = getattr(query, "_jsq", None)
    if java is None:  # Spark Connect
        return list(query.recentProgress)
    kept, found = java.recentProgress(), []
    for at in reversed(range(len(kept))):
        found.append(json.loads(kept[at].json()))
        if found[-1]["batchId"] < batch_id:
            break
    return found[::-1]


def reported_offset(offset: Any) -> Any:
    """Return an offset from a progress report."""
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset)
    except ValueError:
        return ast.literal_eval(offset)  # PySpark before 4.2 formats it as Python does


class RunningStream(ABC):
    """Streaming query of one source; a context manager that stops the query on exit.

    Args:
        writer: Writer with sink, trigger and checkpoint, not yet started.
        what: Description for error messages: `the stream of event log 'orders'`.
        cleanup: Closed when the stream ends, or at interpreter exit.
        target: Path of the sink, if it has one.
        repeats: Number of runs after the first has ended.
    """

    def __init__(
        self,
        writer: DataStreamWriter,
        *,
        what: str,
        cleanup: ExitStack,
        target: str | None = None,
        repeats: int = 0,
    ) -> None:
        self._cleanup = cleanup
        atexit.register(cleanup.close)
        self.what = what
        self._writer = writer
        self._target = target
        self._repeats = repeats
        self._rows: dict[int, int] = {}  # of the newest micro-batches
        self._rows_before, self._batches_before = 0, 0
        self._starts = 0
        self._offset: Mapping[str, Any] | None = None
        self._duration_s = 0.0
        self._polling = threading.Lock()
        try:
            self.query = self._start()
        except BaseException:
            cleanup.close()
            raise

    @abstractmethod
    def settle(self) -> None:
        """Commit the last offset to the source, which Spark does only when it plans the next micro-batch."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.query.stop()
        if kind is None:
            self.settle()  # not after an error, which its own error would hide
        self._cleanup.close()

    def await_ready(self, *, deadline_s: float = 120.0) -> None:
        """Wait for Spark's first progress report with an offset.

        Raises:
            SluiceError: The stream failed, or was not ready within the deadline.
        """
        self.wait_until(lambda: self.offset() is not None, "was not ready", deadline_s=deadline_s)

    def drain(
        self,
        *,
        deadline_s: float | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Progress:
        """Wait until the stream terminates, as it does with `once`.

        Raises:
            SluiceError: It failed, or did not terminate within the deadline.
        """
        end = None if deadline_s is None else time.monotonic() + deadline_s
        while not self.has_ended():
            self._pause()
            if on_progress is not None:
                on_progress(self.progress())
            if end is not None and time.monotonic() > end:
                raise SluiceError(
                    f"{self.what} did not end within {deadline_s:g} s and is still running; stop it, or wait longer"
                )
        self.settle()
        self._cleanup.close()
        progress = self.progress()
        if on_progress is not None:
            on_progress(progress)
        return progress

    def progress(self) -> Progress:
        """Return the current progress."""
        self._poll()
        with self._polling:
            return Progress(
                rows=self._rows_before + sum(self._rows.values()),
                micro_batches=self._batches_before + _with_rows(self._rows.values()),
                offset=self._offset,
                batch_duration_s=self._duration_s,
            )

    def offset(self) -> Mapping[str, Any] | None:
        """Return the end offset of the last micro-batch; None before Spark's first progress report."""
        self._poll()
        return self._offset

    def stop(self) -> Progress:
        """Stop immediately; an interrupted micro-batch is replayed at the next start."""
        self._repeats = 0
        self.query.stop()
        self.settle()
        self._cleanup.close()
        return self.progress()

    def has_ended(self) -> bool:
        """Return True if the stream has terminated; restart it after a start timeout, or if runs are left.

        Raises:
            SluiceError: It failed.
        """
        self._poll()
        if self.query.isActive:
            return False
        failure = self.query.exception()
        if failure is None and not self._repeats:
            return True
        if failure is None:
            self._repeats -= 1
            self.query = self._start()
            return False
        if is_start_timeout(failure) and self._offset is None and self._starts < STARTS_MAX:
            self.query = self._start()
            return False
        self._cleanup.close()
        raise translated(failure, self.what) from None

    def wait_until(self, arrived: Callable[[], bool], missed: str, *, deadline_s: float) -> None:
        """Wait for a condition on this stream.

        Args:
            arrived: The condition.
            missed: Error text if the condition is not met: `was not ready`.
            deadline_s: Maximum wait in seconds.

        Raises:
            SluiceError: The stream failed, or the condition was not met within the deadline.
            LogStateError: The stream terminated before the condition was met.
        """
        end = time.monotonic() + deadline_s
        while True:
            ended = self.has_ended()
            if arrived():
                return
            if ended:
                raise LogStateError(f"{self.what} {missed}: it has ended")
            if time.monotonic() > end:
                raise SluiceError(
                    f"{self.what} {missed} within {deadline_s:g} s; see Spark's log, or wait longer"
                )
            self._pause()

    def _start(self) -> StreamingQuery:
        self._starts += 1
        return self._writer.start(self._target)

    def _poll(self) -> None:
        with self._polling:
            self._add(_reports_since(self.query, max(self._rows, default=-1)))
            if len(self._rows) > 2 * _REPORTS_KEPT:
                self._fold()

    def _fold(self) -> None:
        """Sum up old micro-batches, so that a stream may run for years."""
        for batch_id in sorted(self._rows)[:-_REPORTS_KEPT]:
            rows = self._rows.pop(batch_id)
            self._rows_before += rows
            self._batches_before += _with_rows([rows])

    def _add(self, entries: Sequence[Mapping[str, Any]]) -> None:
        for entry in entries:
            offset = entry["sources"][0]["endOffset"]
            if offset is not None:
                # Reports of Spark Connect lack the total.
                rows = sum(source["numInputRows"] for source in entry["sources"])
                self._rows[entry["batchId"]] = max(rows, self._rows.get(entry["batchId"], 0))
                self._offset = reported_offset(offset)
                if rows:
                    self._duration_s = entry["durationMs"]["triggerExecution"] / 1000

    def _pause(self) -> None:
        from pyspark.errors import StreamingQueryException

        # has_ended reports the failure.
        with suppress(StreamingQueryException):
            self.query.awaitTermination(_POLL_S)
