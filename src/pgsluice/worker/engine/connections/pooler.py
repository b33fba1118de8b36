"""Refuse a pooler behind which the statements of workers, maintenance and commands would fail."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg_pool import ConnectionPool

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import doctor, upkeep
from pgsluice.client.calls.upkeep import Server
from pgsluice.errors import ConfigurationError, translate


def require_transactions(connection: psycopg.Connection[Any]) -> Server:
    """Refuse a pooler behind which our statements would fail or be repeated for ever.

    Args:
        connection: A connection of ours, in autocommit mode.

    Returns:
        The server.

    Raises:
        ConfigurationError: A pooler refuses transaction blocks, or drops the isolation level of the session.
    """
    try:
        with connection.transaction():
            server = Runner(connection).run(upkeep.server())
    except psycopg.errors.ProtocolViolation as error:
        raise ConfigurationError(
            "a pooler refuses transaction blocks, as PgBouncer in statement mode does: no message could be finished; "
            "set pool_mode = transaction or session for the database, or connect directly"
        ) from error
    if server.isolation_level != "read committed":
        raise ConfigurationError(
            f"a pooler drops the startup options, and default_transaction_isolation = '{server.isolation_level}' is "
            f"set for role {server.role_name}, database {server.database_name} or the server: claims, ticks and "
            f"maintenance would fail; run: {doctor.set_read_committed(server.role_name)}; and reconnect the pooler"
        )
    return server


def require_transactions_of(pool: ConnectionPool[Any]) -> None:
    """Like `require_transactions`, for a pool of ours."""
    try:
        with pool.connection() as connection:
            is_autocommit = connection.autocommit
            connection.autocommit = True
            require_transactions(connection)
            connection.autocommit = is_autocommit
    except psycopg.Error as error:
        raise translate(error) from error
