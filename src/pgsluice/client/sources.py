"""The pools, connections and sessions that clients accept."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from pgsluice.frameworks import (
    Adapter,
    AsyncAdapter,
    AsyncOrmSession,
    DjangoConnection,
    OrmSession,
    adapter_of,
    async_adapter_of,
)

Connectable = ConnectionPool[Any] | Connection[Any] | OrmSession | DjangoConnection
AsyncConnectable = AsyncConnectionPool[Any] | AsyncConnection[Any] | AsyncOrmSession


def require_pool(source: Any, pool: type) -> None:
    """Refuse a source that is not a pool of this class, such as a DSN or a connection.

    Raises:
        TypeError: The message has the way to open a pool, and never quotes a DSN.
    """
    if not isinstance(source, pool):
        raise TypeError(
            f"this consumer needs a psycopg_pool.{pool.__name__}, not {type(source).__name__}; open one with: "
            f"psycopg_pool.{pool.__name__}(dsn)"
        )


def require_source(source: Any) -> Adapter | None:
    """Return the adapter of a session or connection of a framework; None for a connection or pool of psycopg.

    Raises:
        TypeError: It is none of them, such as a DSN. The message has the way to open a connection, and never quotes a
            DSN.
    """
    if isinstance(source, Connection | ConnectionPool):
        return None
    adapter = adapter_of(source)
    if adapter is None:
        raise _unusable(source, Connection, ConnectionPool, "pgsluice.connect(dsn)")
    return adapter


def require_async_source(source: Any) -> AsyncAdapter | None:
    """Like `require_source`, for a source that is used in an event loop."""
    if isinstance(source, AsyncConnection | AsyncConnectionPool):
        return None
    adapter = async_adapter_of(source)
    if adapter is None:
        hint = "await psycopg.AsyncConnection.connect(dsn)"
        raise _unusable(source, AsyncConnection, AsyncConnectionPool, hint)
    return adapter


def _unusable(source: Any, connection: type, pool: type, hint: str) -> TypeError:
    return TypeError(
        f"this client needs a psycopg.{connection.__name__} or a psycopg_pool.{pool.__name__}, not "
        f"{type(source).__name__}; open a connection with: {hint}"
    )
