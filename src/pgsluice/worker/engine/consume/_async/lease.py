"""Long-lived checkout of one pool connection."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool

from pgsluice.errors import translate


@asynccontextmanager
async def async_leased(pool: AsyncConnectionPool[Any]) -> AsyncGenerator[AsyncConnection[Any]]:
    """Check out a connection and put it into autocommit mode.

    Raises:
        ConnectionFailedError: The pool has no connection available.
    """
    try:
        connection = await pool.getconn()
    except psycopg.Error as error:
        raise translate(error) from error
    was_autocommit = connection.autocommit
    try:
        await connection.set_autocommit(True)
        yield connection
    finally:
        if connection.info.transaction_status == TransactionStatus.IDLE:
            await connection.set_autocommit(was_autocommit)
        await pool.putconn(connection)
