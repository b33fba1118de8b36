"""The pools and connections that clients accept."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection


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


def require_source(source: Any, connection: type, pool: type) -> None:
    """Refuse a source that is neither a connection nor a pool of these classes, such as a DSN.

    Raises:
        TypeError: The message has the way to open a connection, and never quotes a DSN.
    """
    if isinstance(source, connection | pool):
        return
    hint = "pgsluice.connect(dsn)"
    if connection is AsyncConnection:
        hint = "await psycopg.AsyncConnection.connect(dsn)"
    raise TypeError(
        f"this client needs a psycopg.{connection.__name__} or a psycopg_pool.{pool.__name__}, not "
        f"{type(source).__name__}; open a connection with: {hint}"
    )
