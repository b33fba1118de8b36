"""Sessions and connections of SQLAlchemy and Django, where a client or a handler expects one of psycopg.

The adapters are modules of `pgsluice.contrib`. They are imported when an object of their package is first given, so
that programs without it import nothing of it.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, cast

from psycopg import AsyncConnection, Connection

# Module with the attributes ADAPTER and ASYNC_ADAPTER, by the package that defines a class.
_MODULES = {
    "sqlalchemy": "pgsluice.contrib.sqlalchemy",
    "django": "pgsluice.contrib.django.connections",
}


class OrmSession(Protocol):
    """A `Session`, `scoped_session` or `Connection` of SQLAlchemy."""

    def in_nested_transaction(self) -> bool:
        """Return True within a savepoint."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class AsyncOrmSession(Protocol):
    """An `AsyncSession`, `async_scoped_session` or `AsyncConnection` of SQLAlchemy."""

    def in_nested_transaction(self) -> bool:
        """Return True within a savepoint."""
        ...

    async def close(self) -> None:
        """Close it."""
        ...


class DjangoConnection(Protocol):
    """`django.db.connection`, or one of `django.db.connections`."""

    def ensure_connection(self) -> None:
        """Connect if it is not connected."""
        ...


class Scope(Protocol):
    """A transaction of a framework in which a handler runs.

    Attributes:
        value: Object that the handler gets: a session of SQLAlchemy; the connection of Django.
        connection: Connection of psycopg below it, in the transaction.
        is_committed: True if it is known that the transaction has committed: an error of `transaction` is then that of
            a hook that ran after the commit.
    """

    value: Any
    connection: Connection[Any]
    is_committed: bool

    def transaction(self) -> AbstractContextManager[Any]:
        """Commit at the end of the block; roll back after an exception."""
        ...

    def savepoint(self) -> AbstractContextManager[Any]:
        """Release a savepoint at the end of the block; roll back to it after an exception."""
        ...

    def require_committable(self) -> None:
        """Write pending changes to the database, and refuse a transaction that the handler has ended.

        Raises:
            HandlerError: The handler has ended it, or marked it for rollback.
        """
        ...


class AsyncScope(Protocol):
    """Like `Scope`, for `async def` handlers."""

    value: Any
    connection: AsyncConnection[Any]
    is_committed: bool

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Like that of `Scope`."""
        ...

    def savepoint(self) -> AbstractAsyncContextManager[Any]:
        """Like that of `Scope`."""
        ...

    async def require_committable(self) -> None:
        """Like that of `Scope`."""
        ...


class Adapter(Protocol):
    """Finds the connection of psycopg in an object of a framework."""

    def connection(self, source: Any) -> Connection[Any]:
        """Return the connection of psycopg, in the transaction of the session or connection.

        Raises:
            ArgumentError: It is asynchronous, or its driver is not psycopg.
        """
        ...

    def open(self, source: Any) -> AbstractContextManager[Scope]:
        """Open the transaction of a handler, and close what it opened at the end of the block.

        Args:
            source: Factory of sessions, or a connection.

        Raises:
            ArgumentError: It opens no transaction of psycopg.
        """
        ...

    def join(self, source: Any) -> Scope:
        """Return the open transaction of a session or connection, for tests: ending it ends a savepoint only."""
        ...

    def sharing(self, source: Any) -> Callable[[], AbstractContextManager[Any]]:
        """Return a context manager with which another thread uses the connection of this thread, for tests."""
        ...


class AsyncAdapter(Protocol):
    """Like `Adapter`, for objects that are used in an event loop."""

    async def connection(self, source: Any) -> AsyncConnection[Any]:
        """Like that of `Adapter`."""
        ...

    def open(self, source: Any) -> AbstractAsyncContextManager[AsyncScope]:
        """Like that of `Adapter`."""
        ...

    async def join(self, source: Any) -> AsyncScope:
        """Like that of `Adapter`."""
        ...


def adapter_of(source: object) -> Adapter | None:
    """Return the adapter for an object of a framework; None for any other object."""
    module = _module_of(source)
    return None if module is None else cast("Adapter", module.ADAPTER)


def async_adapter_of(source: object) -> AsyncAdapter | None:
    """Return the adapter for an object of a framework that is used in an event loop; None for any other object."""
    module = _module_of(source)
    return None if module is None else cast("AsyncAdapter", module.ASYNC_ADAPTER)


def django_databases() -> dict[str, Any]:
    """Return the names of Django's databases by alias, in a test those of the test; none without Django."""
    apps, db = sys.modules.get("django.apps"), sys.modules.get("django.db")
    if apps is None or db is None or not apps.apps.ready:
        return {}
    return {alias: db.connections.settings[alias]["NAME"] for alias in db.connections}


def set_up(databases: Mapping[str, Any] | None = None) -> None:
    """Set up Django before modules of a project are imported, if `DJANGO_SETTINGS_MODULE` names its settings.

    Args:
        databases: Names of its databases, from `django_databases` in another process.
    """
    if os.environ.get("DJANGO_SETTINGS_MODULE") and importlib.util.find_spec("django") is not None:
        django = importlib.import_module("django")
        apps = importlib.import_module("django.apps").apps
        if not (apps.ready or apps.loading):
            django.setup()
        connections = importlib.import_module("django.db").connections
        for alias, name in (databases or {}).items():
            connections.settings[alias]["NAME"] = name


def _module_of(source: object) -> Any:
    kinds = source.__mro__ if isinstance(source, type) else type(source).__mro__
    for kind in kinds:
        if (name := _MODULES.get(kind.__module__.partition(".")[0])) is not None:
            return importlib.import_module(name)
    return None
