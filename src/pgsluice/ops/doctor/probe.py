"""Calls of a check, within its budget of time."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import psycopg

from pgsluice.client.calls import Call, doctor
from pgsluice.client.calls.doctor_queues import QueueHead
from pgsluice.connection import tuple_cursor
from pgsluice.ops.doctor.thresholds import Thresholds

Result = TypeVar("Result")

_LOCK_MS = 200
_GRACE_S = 1.0  # for a cancelled statement to return


class BudgetSpentError(Exception):
    """The check has used its time."""


@dataclass(slots=True)
class Probe:
    """A connection in autocommit mode, with a budget for each check.

    Each call is a read-only transaction of its own, which ends before the next: a transaction with the locks of
    thousands of queues would exceed the server's lock table. Statements are not prepared, and settings end with the
    transaction, so that a pooler can be in between.
    """

    connection: psycopg.Connection[Any]
    thresholds: Thresholds = field(default_factory=Thresholds)
    budget_s: float = 2.0
    reconnect: Callable[[], psycopg.Connection[Any]] | None = None
    heads: list[QueueHead] = field(default_factory=list, init=False)
    unread_heads: list[str] | None = field(default=None, init=False)
    _end_s: float = field(default=0.0, init=False)

    @contextmanager
    def budget(self) -> Iterator[None]:
        """Begin the budget of a check. If the server is silent for longer, the connection is closed."""
        self._end_s = time.monotonic() + self.budget_s
        # A statement_timeout does not help if the server or the network is silent.
        cut = threading.Timer(self.budget_s + _GRACE_S, _shut_down, (self.connection.fileno(),))
        cut.daemon = True
        cut.start()
        try:
            yield
        finally:
            cut.cancel()

    def left_s(self) -> float:
        """Return the seconds left of the budget.

        Raises:
            BudgetSpentError: None are left.
        """
        left_s = self._end_s - time.monotonic()
        if left_s < 0.01:
            raise BudgetSpentError
        return left_s

    def fetch(self, call: Call[Result]) -> Result:
        """Run a call and return its result."""
        return self.within(lambda _connection: self._rows(call))

    def within(self, work: Callable[[psycopg.Connection[Any]], Result]) -> Result:
        """Run work in a read-only transaction that is rolled back."""
        left_ms = int(self.left_s() * 1000)
        with self.connection.transaction(force_rollback=True):
            self._rows(doctor.limit_check(left_ms, _LOCK_MS))
            return work(self.connection)

    def _rows(self, call: Call[Result]) -> Result:
        return fetch_on(self.connection, call)

    def fetch_text(self, query: str) -> list[tuple[Any, ...]]:
        """Run a query without parameters, which the server has composed, and return its rows."""
        return self.within(lambda connection: _tuples(connection, query))

    def now(self) -> datetime:
        """Return the time of the server."""
        return self.fetch(doctor.server_clock())

    def fetch_alone(self, call: Call[Result]) -> Result:
        """Run a call without a transaction block around it."""
        self.left_s()
        return self._rows(call)


def fetch_on(connection: psycopg.Connection[Any], call: Call[Result]) -> Result:
    """Run a call on a connection, without a budget."""
    with tuple_cursor(connection) as cursor:
        rows = cursor.execute(call.sql, call.parameters, prepare=False).fetchall()
    return call.read_rows(rows)


def _tuples(connection: psycopg.Connection[Any], query: str) -> list[tuple[Any, ...]]:
    with tuple_cursor(connection) as cursor:
        return cursor.execute(query.encode(), prepare=False).fetchall()


def _shut_down(file_number: int) -> None:
    """Shut a connection down, so that a call which waits for it returns with an error."""
    try:
        with socket.socket(fileno=os.dup(file_number)) as shared:
            shared.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # closed meanwhile
