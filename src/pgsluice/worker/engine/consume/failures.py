"""Classify errors around a handler: transient errors, and misuse of the transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.pq import TransactionStatus

from pgsluice.errors import (
    BatchNotFoundError,
    ConnectionFailedError,
    HandlerError,
    translate,
)
from pgsluice.outcome import Reject, Retry
from pgsluice.worker.engine.delivery import Failure
from pgsluice.worker.engine.run.threads import NotStartedError
from pgsluice.worker.handlers.retry import RetryPolicy

# Conflicts with other transactions; retry the same work.
_CONFLICTS = frozenset({"40001", "40P01"})


class BusyError(Exception):
    """Another session of the same consumer is active."""


def require_status(
    connection: Connection[Any] | AsyncConnection[Any], status: TransactionStatus
) -> None:
    """Refuse an unexpected transaction status after a handler.

    Raises:
        HandlerError: The handler ended the transaction, left one open, or swallowed a database error.
    """
    found = connection.info.transaction_status
    if found not in (
        status,
        TransactionStatus.UNKNOWN,
    ):  # unknown: the connection is lost, which the next call reports
        raise HandlerError(
            f"the handler left its connection in state {found.name}, expected {status.name}; let database errors "
            "propagate, and end exactly the transactions that the handler begins"
        )


def is_passing(error: Exception) -> bool:
    """True for a transient error not caused by the handler."""
    if isinstance(error, psycopg.Error):
        error = translate(error)
    return (
        isinstance(error, ConnectionFailedError | BusyError | BatchNotFoundError | NotStartedError)
        or getattr(error, "sqlstate", None) in _CONFLICTS
    )


class EventFailedError(Exception):
    """The handler of an event failed; the raiser logs the failure.

    Attributes:
        failure: The error of that attempt.
        outcome: `Retry` or `Reject`.
        policy: The handler's retry policy.
    """

    def __init__(self, failure: Failure, outcome: Retry | Reject, policy: RetryPolicy) -> None:
        """Word the error as that of the handler."""
        super().__init__(f"{failure.error_type}: {failure.message}")
        self.failure = failure
        self.outcome = outcome
        self.policy = policy


@contextmanager
def passing_failures() -> Iterator[None]:
    """Translate transient database errors; other exceptions of a handler pass unchanged."""
    try:
        yield
    except psycopg.Error as error:
        if is_passing(error):
            raise translate(error) from error
        raise
