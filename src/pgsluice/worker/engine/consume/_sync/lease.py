# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""Long-lived checkout of one pool connection."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

from pgsluice.errors import translate


@contextmanager
def leased(pool: ConnectionPool[Any]) -> Generator[Connection[Any]]:
    """Check out a connection and put it into autocommit mode.

    Raises:
        ConnectionFailedError: The pool has no connection available.
    """
    try:
        connection = pool.getconn()
    except psycopg.Error as error:
        raise translate(error) from error
    was_autocommit = connection.autocommit
    try:
        connection.set_autocommit(True)
        yield connection
    finally:
        if connection.info.transaction_status == TransactionStatus.IDLE:
            connection.set_autocommit(was_autocommit)
        pool.putconn(connection)
