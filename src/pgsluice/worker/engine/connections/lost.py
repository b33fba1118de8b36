"""Detect errors of a lost session or server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from psycopg import AsyncConnection, Connection, OperationalError
from psycopg.errors import (
    DiskFull,
    IdleInTransactionSessionTimeout,
    ReadOnlySqlTransaction,
    TransactionTimeout,
)

from pgsluice.errors import ConnectionFailedError

# Connection exceptions and operator intervention.
_SESSION_ENDED = ("08", "57P")
OUT_OF_TIME = (IdleInTransactionSessionTimeout, TransactionTimeout)


def was_lost(
    connection: Connection[Any] | AsyncConnection[Any], error: BaseException | None
) -> bool:
    """True if a transaction failed because of its session or server, not because of its statements.

    Transaction timeouts end the session too, but count as attempts: a handler that always exceeds them would otherwise
    be retried without end.
    """
    causes = list(_causes(error))
    if getattr(connection, "is_out_of_time", False) or any(
        isinstance(each, OUT_OF_TIME) for each in causes
    ):
        return False
    if any(isinstance(each, DiskFull) for each in causes):
        return True
    if is_read_only(error):
        return connection.info.parameter_status("in_hot_standby") == "on"
    if connection.broken:
        return any(isinstance(each, OperationalError | ConnectionFailedError) for each in causes)
    # The pool of a framework has closed the broken connection by now.
    return connection.closed and any(
        isinstance(each, OperationalError) and (each.sqlstate or "08").startswith(_SESSION_ENDED)
        for each in causes
    )


def is_read_only(error: BaseException | None) -> bool:
    """True if the error, or one in its cause chain, is a read-only transaction error."""
    return any(isinstance(each, ReadOnlySqlTransaction) for each in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its chain of causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
