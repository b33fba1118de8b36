"""What can go wrong around a handler: what passes by itself, and what the handler did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.pq import TransactionStatus

from pgsluice.errors import BatchNotFoundError, ConnectionFailedError, HandlerError, translate

# What another transaction caused: the same work again, and nobody is to blame.
_CONFLICTS = frozenset({"40001", "40P01"})


class BusyError(Exception):
    """Another session of the same consumer is at work."""


def require_status(
    connection: Connection[Any] | AsyncConnection[Any], status: TransactionStatus
) -> None:
    """Refuse what a handler may have done to its transaction.

    Raises:
        HandlerError: It ended it, left one open, or swallowed an error of the server.
    """
    found = connection.info.transaction_status
    if found not in (
        status,
        TransactionStatus.UNKNOWN,
    ):  # unknown: the connection is lost, which the next call tells
        raise HandlerError(
            f"the handler left its connection in the state {found.name} and not {status.name}; it must let errors "
            "of the server pass, and end the transactions that it begins, and no other"
        )


def is_passing(error: Exception) -> bool:
    """Whether it is not the handler's fault and passes by itself."""
    if isinstance(error, psycopg.Error):
        error = translate(error)
    return (
        isinstance(error, ConnectionFailedError | BusyError | BatchNotFoundError)
        or getattr(error, "sqlstate", None) in _CONFLICTS
    )


class EventFailedError(Exception):
    """An event was rejected, or has failed for the last time; its failure is logged by who raises it."""


@contextmanager
def passing_failures() -> Iterator[None]:
    """Give what passes by itself its class; what else a handler raised stays as it is."""
    try:
        yield
    except psycopg.Error as error:
        if is_passing(error):
            raise translate(error) from error
        raise
