"""Queues in the transactions of Django's connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, NoReturn

import psycopg

from pgsluice.errors import ArgumentError, HandlerError, MissingExtraError

try:
    from asgiref.sync import sync_to_async
    from django.db import Error, connections
    from django.db.transaction import atomic, on_commit
except ModuleNotFoundError as error:
    raise MissingExtraError(
        f"Django's connections require the Python package {error.name}; `pip install 'pgsluice[django]'`"
    ) from None


class _Adapter:
    """Adapts Django's connections, see `pgsluice.frameworks.Adapter`.

    Connections of Django belong to a thread: each is found again by its alias in the thread that uses it.
    """

    def connection(self, source: Any) -> psycopg.Connection[Any]:
        wrapper = connections[_alias(source)]
        close_broken()
        try:
            wrapper.close_if_health_check_failed()  # as for each cursor of Django
            wrapper.ensure_connection()
        except Error as error:
            if isinstance(error.__cause__, psycopg.Error):
                raise error.__cause__ from error
            raise
        driver = wrapper.connection
        if not isinstance(driver, psycopg.Connection):
            raise ArgumentError(
                f"Django's database {wrapper.alias!r} has no connection of psycopg 3; use the engine "
                "django.db.backends.postgresql, and install psycopg[binary]"
            )
        return driver

    @contextlib.contextmanager
    def open(self, source: Any) -> Generator[_Scope]:
        yield _Scope(connections[_alias(source)], self.connection(source))

    def join(self, source: Any) -> _Joined:
        return _Joined(connections[_alias(source)], self.connection(source))

    def sharing(self, source: Any) -> Callable[[], AbstractContextManager[Any]]:
        alias = _alias(source)
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            raise ArgumentError(
                "Django's connections belong to a thread; in an event loop, await "
                "sync_to_async(run_handler)(handler, payload, connection=connection)"
            )
        wrapper = connections[alias]

        @contextlib.contextmanager
        def shared() -> Generator[None]:
            own = connections[alias]
            wrapper.inc_thread_sharing()
            connections[alias] = wrapper
            try:
                yield
            finally:
                connections[alias] = own
                wrapper.dec_thread_sharing()

        return shared


class _AsyncAdapter:
    """Refuses Django's connections, which are synchronous."""

    async def connection(self, _source: Any) -> psycopg.AsyncConnection[Any]:
        _refuse()

    def open(self, _source: Any) -> AbstractAsyncContextManager[Any]:
        _refuse()

    async def join(self, _source: Any) -> Any:
        _refuse()


class _Scope:
    """A transaction of Django, see `pgsluice.frameworks.Scope`."""

    def __init__(self, wrapper: Any, connection: psycopg.Connection[Any]) -> None:
        self.value = wrapper
        self.connection = connection
        self.is_committed = False

    @contextlib.contextmanager
    def transaction(self) -> Generator[None]:
        # Durable: within another block of atomic() the end of this one would not commit.
        with contextlib.suppress(psycopg.Rollback), self._atomic(durable=True):
            on_commit(self._committed, using=self.value.alias)  # before the hooks of the handler
            yield

    def savepoint(self) -> Any:
        return self._atomic()

    def require_committable(self) -> None:
        if not self.value.in_atomic_block or self.value.needs_rollback:
            raise HandlerError(
                "the handler ended the transaction of Django's connection itself, or marked it for rollback; raise an "
                "exception to roll back"
            )

    def _committed(self) -> None:
        self.is_committed = True

    def _atomic(self, *, durable: bool = False) -> Any:
        return atomic(using=self.value.alias, durable=durable)


class _Joined(_Scope):
    """The transaction of a test."""

    def transaction(self) -> Any:
        return self._atomic()


class ThreadConnections:
    """Middleware that closes Django's old and broken connections around each `def` handler, in its thread.

    They are kept for `CONN_MAX_AGE` seconds, as between the requests of a web server, and at most until the thread
    ends; `CONN_HEALTH_CHECKS` applies too.
    """

    def __call__(self, call: Callable[[Any, Any], Any], payload: Any, context: Any) -> Any:
        """Call the handler."""
        _close_old()
        try:
            return call(payload, context)
        finally:
            _close_old()

    def close(self) -> None:
        """Close the connections of this thread."""
        _close_all()


class LoopConnections:
    """Like `ThreadConnections`, for `async def` handlers: in the thread of `sync_to_async` and Django's async ORM."""

    def __init__(self) -> None:
        """Start without connections."""
        self._is_used = False

    async def __call__(self, call: Callable[[Any, Any], Any], payload: Any, context: Any) -> Any:
        """Call the handler."""
        from pgsluice.worker.engine.run.context import SyncContext  # not in programs that only send

        if isinstance(context[0] if isinstance(context, list) else context, SyncContext):
            return await call(payload, context)
        self._is_used = True
        await sync_to_async(_close_old)()
        try:
            return await call(payload, context)
        finally:
            await sync_to_async(_close_old)()

    async def close(self) -> None:
        """Close the connections of that thread."""
        if self._is_used:
            self._is_used = False
            await sync_to_async(_close_all)()


def close_broken(**_signal: Any) -> None:
    """Close the connections of this thread that are broken: Django does not know of errors of our calls."""
    for wrapper in _closable():
        if getattr(wrapper.connection, "closed", False):
            wrapper.close()


def _close_old() -> None:
    close_broken()
    for wrapper in _closable():
        wrapper.close_if_unusable_or_obsolete()


def _close_all() -> None:
    for wrapper in _closable():
        wrapper.close()


def _closable() -> list[Any]:
    """Return the connections of this thread without those in `atomic()`, such as that of a test."""
    return [each for each in connections.all(initialized_only=True) if not each.in_atomic_block]


def _alias(source: Any) -> str:
    alias = getattr(source, "alias", None)
    if not isinstance(alias, str):
        raise ArgumentError(f"got {type(source).__name__} of Django; pass django.db.connection")
    return alias


def _refuse() -> NoReturn:
    raise ArgumentError(
        "Django's connections are synchronous; send with `await sync_to_async(handler.send)(payload, "
        "connection=connection)`, and use a `def` handler for context.transaction()"
    )


ADAPTER = _Adapter()
ASYNC_ADAPTER = _AsyncAdapter()
