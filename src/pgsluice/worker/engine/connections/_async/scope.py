"""Transaction of a handler on a connection of the worker, or of SQLAlchemy or Django."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from typing import Any

from psycopg import AsyncConnection

from pgsluice.errors import ArgumentError, HandlerError
from pgsluice.frameworks import AsyncScope, async_adapter_of


class AsyncConnectionScope:
    """The transaction of a connection, see `pgsluice.frameworks.AsyncScope`."""

    is_committed = False

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self.value = self.connection = connection

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Open a transaction block."""
        return self.connection.transaction()

    def savepoint(self) -> AbstractAsyncContextManager[Any]:
        """Open a nested transaction block."""
        return self.connection.transaction()

    async def require_committable(self) -> None:
        """Do nothing: nothing is pending, and the worker checks the connection."""


@contextlib.asynccontextmanager
async def async_adapter_scope(on: Any) -> AsyncGenerator[AsyncScope]:
    """Open the transaction of a framework.

    Raises:
        HandlerError: It cannot be used in this handler.
    """
    adapter = async_adapter_of(on)
    if adapter is None:
        raise HandlerError(
            f"context.transaction() got {type(on).__name__}; pass a sessionmaker of SQLAlchemy or "
            "django.db.connection, or nothing for a connection of the worker"
        )
    async with contextlib.AsyncExitStack() as stack:
        try:
            scope = await stack.enter_async_context(adapter.open(on))
        except ArgumentError as error:
            raise HandlerError(f"context.transaction(): {error}") from error
        yield scope
