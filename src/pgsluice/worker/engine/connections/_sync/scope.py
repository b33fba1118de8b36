# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""Transaction of a handler on a connection of the worker, or of SQLAlchemy or Django."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from contextlib import AbstractContextManager
from typing import Any

from psycopg import Connection

from pgsluice.errors import ArgumentError, HandlerError
from pgsluice.frameworks import Scope, adapter_of


class ConnectionScope:
    """The transaction of a connection, see `pgsluice.frameworks.Scope`."""

    is_committed = False

    def __init__(self, connection: Connection[Any]) -> None:
        self.value = self.connection = connection

    def transaction(self) -> AbstractContextManager[Any]:
        """Open a transaction block."""
        return self.connection.transaction()

    def savepoint(self) -> AbstractContextManager[Any]:
        """Open a nested transaction block."""
        return self.connection.transaction()

    def require_committable(self) -> None:
        """Do nothing: nothing is pending, and the worker checks the connection."""


@contextlib.contextmanager
def adapter_scope(on: Any) -> Generator[Scope]:
    """Open the transaction of a framework.

    Raises:
        HandlerError: It cannot be used in this handler.
    """
    adapter = adapter_of(on)
    if adapter is None:
        raise HandlerError(
            f"context.transaction() got {type(on).__name__}; pass a sessionmaker of SQLAlchemy or "
            "django.db.connection, or nothing for a connection of the worker"
        )
    with contextlib.ExitStack() as stack:
        try:
            scope = stack.enter_context(adapter.open(on))
        except ArgumentError as error:
            raise HandlerError(f"context.transaction(): {error}") from error
        yield scope
