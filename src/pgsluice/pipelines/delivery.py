"""Idempotent delivery of rows into a queue or a log, across restarts of the writer.

Each part is one transaction: it locks and reads the writer's position in the ledger, copies the rows after that
position, and records the last one. If the outcome of its commit is unknown, the ledger shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import psycopg

from pgsluice import connection
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import producing
from pgsluice.client.calls import spark_files as calls
from pgsluice.client.calls import spark_sinks as sinks
from pgsluice.client.log_records import NewEvent
from pgsluice.errors import (
    ConfigurationError,
    PayloadError,
    QueueNotFoundError,
    ServerError,
    SluiceError,
    translate,
)

# SQLSTATE classes of data that PostgreSQL refuses (22) and of exceeded limits (54), except for 22004 and 22023:
# these refer to arguments, which are wrong for all rows.
_FAULT_OF_ROW = ("22", "54")
_NO_FAULT_OF_ROW = ("22004", "22023")


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    """One row for a queue or a log.

    Attributes:
        number: Greater than that of the previous row; the ledger stores it as the position.
        message: For a queue: JSON as text, or None for null.
        headers: For a queue: JSON as text, or None.
        event: For a log.
    """

    number: int
    message: str | None = None
    headers: str | None = None
    event: NewEvent | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A row that the server refused."""

    row: DeliveryRow
    reason: str


BeforeCommit = Callable[[int, Sequence[Refused]], None]


@dataclass(frozen=True, slots=True)
class RowTarget:
    """The destination of rows: either a queue or a log.

    Attributes:
        queue: A work queue.
        log: An event log.
    """

    queue: str | None
    log: str | None

    def __post_init__(self) -> None:
        """Require exactly one."""
        if (self.queue is None) == (self.log is None):
            raise ConfigurationError("pass either queue or log, not both")

    def __str__(self) -> str:
        return f"queue {self.queue}" if self.log is None else f"log {self.log}"


class TargetConnection:
    """A connection that delivers rows to one target; a context manager that closes it."""

    def __init__(self, target: RowTarget, *, dsn: str | None) -> None:
        """Connect, and check the target.

        Raises:
            ConnectionFailedError: The server cannot be reached.
            QueueNotFoundError, LogNotFoundError: The target does not exist.
            NotInstalledError: The schema is not installed.
        """
        self._target = target
        self._database = connection.connect(connection.resolve(dsn), autocommit=True)
        self._runner = Runner(self._database)
        try:
            self._copy(())  # raises if it is missing or this role may not write to it
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def position(self, sink_id: str) -> tuple[int, Mapping[str, Any]]:
        """Return a writer's position and its last detail; 0 and nothing if it never wrote."""
        with self._transaction():
            found = self._runner.run(sinks.sink_position(sink_id))
        return (0, {}) if found is None else (found[0], found[1] or {})

    def begin(self, sink_id: str, detail: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
        """Return a writer's position and its last detail; register a new writer at 0 with `detail`."""
        with self._transaction():
            found = self._runner.run(sinks.sink_position(sink_id))
            if found is not None:
                return found[0], found[1] or {}
            self._runner.run(sinks.sink_commit(sink_id, 0, detail=detail))
            return 0, detail

    def deliver(
        self,
        rows: Sequence[DeliveryRow],
        *,
        sink_id: str,
        up_to: int,
        detail: Mapping[str, Any],
        before_commit: BeforeCommit | None = None,
    ) -> int:
        """Add the rows that are missing, and record the new position.

        Args:
            rows: By ascending number; may be empty.
            sink_id: Id of the writer.
            up_to: New position, at least the number of the last row.
            detail: Stored with the position.
            before_commit: Called in the transaction with the previous position and the rows that the server refused, to
                write rejects to disk before the position passes them.

        Returns:
            The number of rows added.

        Raises:
            SluiceError: Nothing was added; if the connection was lost, all may have been, which the next call
                finds out.
        """
        with self._transaction():
            found = self._runner.run(sinks.sink_position(sink_id))
            last = 0 if found is None else found[0]
            if last >= up_to:
                return 0
            new = [row for row in rows if row.number > last]
            refused = self._add(new) if new else []
            if before_commit is not None:
                before_commit(last, refused)
            self._runner.run(sinks.sink_commit(sink_id, up_to, detail=detail))
        return len(new) - len(refused)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            with self._database.transaction():
                yield
        except psycopg.Error as error:  # from begin or commit
            raise translate(error) from error

    def _add(self, rows: Sequence[DeliveryRow]) -> list[Refused]:
        """Add rows; bisect them if the server refuses one."""
        try:
            with self._database.transaction():  # a savepoint
                self._copy(rows)
        except SluiceError as error:
            if not _is_fault_of_row(error):
                raise
            if len(rows) == 1:
                return [Refused(rows[0], str(error))]
        else:
            return []
        half = len(rows) // 2
        return self._add(rows[:half]) + self._add(rows[half:])

    def _copy(self, rows: Sequence[DeliveryRow]) -> None:
        if self._target.queue is not None:
            table, now = self._runner.run(sinks.queue_table(self._target.queue))
            messages = ((now, row.message, row.headers) for row in rows)
            try:
                self._runner.run_or_copy(calls.copy_messages(table, messages))
            except ServerError as error:
                if error.sqlstate != "42P01":
                    raise
                raise QueueNotFoundError(
                    names=(self._target.queue,), sqlstate=error.sqlstate
                ) from error
        else:
            events = [row.event for row in rows if row.event is not None]
            self._runner.run_or_copy(producing.insert_many(str(self._target.log), events))


def _is_fault_of_row(error: SluiceError) -> bool:
    if isinstance(error, PayloadError):
        return True
    sqlstate = error.sqlstate or ""
    return sqlstate.startswith(_FAULT_OF_ROW) and sqlstate not in _NO_FAULT_OF_ROW
