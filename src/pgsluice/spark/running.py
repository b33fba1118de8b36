"""A streaming query that runs: how far it is, waiting for it, and starting it again when a process came up too late."""

from __future__ import annotations

import atexit
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from pgsluice.errors import LogStateError, SluiceError
from pgsluice.spark.failure import is_start_timeout, told_by

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

STARTS_MAX = 4
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pipeline is.

    Attributes:
        rows: Rows that this run carried.
        micro_batches: How many micro-batches, or commits, carried them.
        offset: Everything up to here was carried, as the source writes it; None before the first answer
            of Spark, or where there is no stream.
        batch_duration_s: How long the last micro-batch took; 0.0 before the first.
    """

    rows: int = 0
    micro_batches: int = 0
    offset: Mapping[str, Any] | None = None
    batch_duration_s: float = 0.0


class RunningStream(ABC):
    """A streaming query of one source. A context manager: leaving it stops the query.

    Args:
        writer: Has its sink, trigger and checkpoint; only the start is missing.
        what: What it is, to begin an error's message with: `the stream of event log 'orders'`.
        cleanup: Closed when the stream ends, or when the program does, which may have dropped this object.
        target: What the sink calls its path, if it has one.
    """

    def __init__(
        self,
        writer: DataStreamWriter,
        *,
        what: str,
        cleanup: ExitStack,
        target: str | None = None,
    ) -> None:
        self._cleanup = cleanup
        atexit.register(cleanup.close)
        self.what = what
        self._writer = writer
        self._target = target
        self._rows: dict[int, int] = {}
        self._starts = 0
        self._offset: Mapping[str, Any] | None = None
        self._duration_s = 0.0
        self.query = self._start()

    @abstractmethod
    def settle(self) -> None:
        """Tell the source how far the target is: Spark tells it only when it plans the next micro-batch."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.query.stop()
        if kind is None:
            self.settle()  # after an error, its own error would hide that one
        self._cleanup.close()

    def await_ready(self, *, deadline_s: float = 120.0) -> None:
        """Wait until Spark has looked at the source for the first time.

        Raises:
            SluiceError: The stream failed, or was not ready in time.
        """
        self.wait_until(lambda: self.offset() is not None, "was not ready", deadline_s=deadline_s)

    def drain(
        self,
        *,
        deadline_s: float | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Progress:
        """Wait until the stream ends by itself, as it does with `once`.

        Raises:
            SluiceError: It failed, or did not end in time.
        """
        end = None if deadline_s is None else time.monotonic() + deadline_s
        while not self.has_ended():
            self._pause()
            if on_progress is not None:
                on_progress(self.progress())
            if end is not None and time.monotonic() > end:
                raise SluiceError(
                    f"{self.what} did not end within {deadline_s:g} s; it goes on: stop it, or wait longer"
                )
        self.settle()
        self._cleanup.close()
        progress = self.progress()
        if on_progress is not None:
            on_progress(progress)
        return progress

    def progress(self) -> Progress:
        """How far the stream is now."""
        self._look()
        return Progress(
            rows=sum(self._rows.values()),
            micro_batches=sum(1 for rows in self._rows.values() if rows),
            offset=self._offset,
            batch_duration_s=self._duration_s,
        )

    def offset(self) -> Mapping[str, Any] | None:
        """Where the last micro-batch ended, as the source writes it; None before the first answer of Spark."""
        self._look()
        return self._offset

    def stop(self) -> Progress:
        """Stop now, in the middle of a micro-batch if need be: its rows come with the next start."""
        self.query.stop()
        self.settle()
        self._cleanup.close()
        return self.progress()

    def has_ended(self) -> bool:
        """Whether the stream is over.

        Raises:
            SluiceError: It failed.
        """
        self._look()
        if self.query.isActive:
            return False
        failure = self.query.exception()
        if failure is None:
            return True
        if is_start_timeout(failure) and self._offset is None and self._starts < STARTS_MAX:
            self.query = self._start()
            return False
        self._cleanup.close()
        raise told_by(failure, self.what) from None

    def wait_until(self, arrived: Callable[[], bool], missed: str, *, deadline_s: float) -> None:
        """Wait for a condition on this stream.

        Args:
            arrived: The condition.
            missed: What to say of the stream when it did not come: `was not ready`.
            deadline_s: How long to wait.

        Raises:
            SluiceError: The stream failed, or the condition did not come in time.
            LogStateError: The stream has ended without it.
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
                    f"{self.what} {missed} within {deadline_s:g} s; look at Spark's log, or wait longer"
                )
            self._pause()

    def _start(self) -> StreamingQuery:
        self._starts += 1
        return self._writer.start(self._target)

    def _look(self) -> None:
        for entry in self.query.recentProgress:
            offset = entry["sources"][0]["endOffset"]
            if offset is not None:
                self._rows[entry["batchId"]] = max(
                    entry["numInputRows"], self._rows.get(entry["batchId"], 0)
                )
                self._offset = json.loads(offset) if isinstance(offset, str) else offset
                if entry["numInputRows"]:
                    self._duration_s = entry["durationMs"]["triggerExecution"] / 1000

    def _pause(self) -> None:
        from pyspark.errors import StreamingQueryException

        # Its failure is what has_ended reports.
        with suppress(StreamingQueryException):
            self.query.awaitTermination(_POLL_S)
