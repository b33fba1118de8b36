"""Queues in the transactions of SQLAlchemy 2; needs `pip install 'pgsluice[sqlalchemy]'`.

    handler.send(payload, connection=session)    # in the transaction of a Session or Connection
    WorkQueue(session).send("orders", {"id": 7})

    @app.handler("orders")
    def pack(order: Order, context: SyncContext) -> None:
        with context.transaction(Session) as session:  # Session = sessionmaker(engine)
            session.add(Parcel(order_id=order.id))

Clients, senders and `context.transaction` take sessions and connections whose driver is psycopg 3, sync or async. With
other drivers, such as asyncpg, execute `sending(handler, payload)` in the session.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncGenerator, Generator
from typing import Any, Unpack, cast

import psycopg
from psycopg.types.json import Jsonb

from pgsluice.errors import ArgumentError, ConnectionFailedError, HandlerError, MissingExtraError
from pgsluice.tracing.switch import tracing
from pgsluice.worker.handlers.options import SendOptions
from pgsluice.worker.handlers.sendable import Handler, Payload

try:
    from sqlalchemy import ARRAY, Connection, String, TextClause, bindparam, event, text
    from sqlalchemy import exc as errors
    from sqlalchemy.ext.asyncio import (
        AsyncConnection,
        AsyncSession,
        async_scoped_session,
        async_sessionmaker,
    )
    from sqlalchemy.orm import Session, SessionTransaction, scoped_session, sessionmaker
except ModuleNotFoundError as error:
    raise MissingExtraError(
        f"sessions of SQLAlchemy require the Python package {error.name}; `pip install 'pgsluice[sqlalchemy]'`"
    ) from None

# Each parameter of our statements has a cast: `%s::bigint`, `%s::jsonb[]`.
_PARAMETER = re.compile(r"%s(?:::([a-z_0-9.]+(?:\[\])?))?")
_ENDED = (
    "the handler ended the transaction of its session itself; leave commit() and rollback() to the worker, and raise "
    "an exception to roll back"
)


def sending(
    handler: Handler[Payload, ..., Any], payload: Payload, **options: Unpack[SendOptions]
) -> TextClause:
    """Return a statement that sends to a handler, for a session or connection with any driver.

        message_id = await session.scalar(sending(pack, Order(7)))

    Args:
        handler: Its queue or log receives the payload.
        payload: As for `Handler.send`.
        **options: See `SendOptions`.

    Returns:
        A statement whose scalar is what `Handler.send` returns. Executing it raises SQLAlchemy's errors.

    Raises:
        PayloadError: The payload does not match its type, or cannot be stored.
        ArgumentError: An option is unknown, out of range, or not supported here.
    """
    call = handler.sending.one(payload, options)
    parameters = call.parameters
    if call.sends is not None and (traced := tracing()) is not None:
        with traced.sending(call.sends, call.sends.given(parameters)) as operation:
            parameters = call.sends.with_context(parameters, operation.carrier)
    names = [f"p{position}" for position in range(len(parameters))]
    left = iter(names)

    def named(found: re.Match[str]) -> str:
        kind = found[1]
        return f":{next(left)}" if kind is None else f"cast(:{next(left)} as {kind})"

    statement = text(_PARAMETER.sub(named, call.sql))
    return statement.bindparams(*map(_bound, names, parameters))


def _bound(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return bindparam(name, [_text(each) for each in value], ARRAY(String))
    return bindparam(name, _text(value))


def _text(value: Any) -> Any:
    return value.dumps(value.obj) if isinstance(value, Jsonb) and value.dumps else value


class _Adapter:
    """Adapts sessions and connections, see `pgsluice.frameworks.Adapter`."""

    def connection(self, source: Any) -> psycopg.Connection[Any]:
        if isinstance(source, scoped_session):
            source = source()
        with _psycopg_errors():
            if isinstance(source, Session):
                source = source.connection()
            elif not isinstance(source, Connection):
                raise _unusable(source, "a Session or Connection")
            elif not source.in_transaction():
                source.begin()  # else commit() would not know of our statements
            driver = source.connection.driver_connection
        if not isinstance(driver, psycopg.Connection):
            raise _other_driver(source.dialect.driver)
        return driver

    @contextlib.contextmanager
    def open(self, source: Any) -> Generator[_Scope]:
        make = source.session_factory if isinstance(source, scoped_session) else source
        if not (isinstance(make, sessionmaker) or _is_class(make, Session)):
            raise _unusable(source, "a sessionmaker")
        session = cast("Session", make())
        with contextlib.ExitStack() as stack:
            stack.callback(session.close)
            if isinstance(source, scoped_session):
                stack.enter_context(_registered(source, session))
            yield _Scope(session, self.connection(session))

    def join(self, source: Any) -> _Joined:
        return _Joined(source, self.connection(source))

    def sharing(self, _source: Any) -> Any:
        return contextlib.nullcontext


class _AsyncAdapter:
    """Like `_Adapter`, for asyncio."""

    async def connection(self, source: Any) -> psycopg.AsyncConnection[Any]:
        if isinstance(source, async_scoped_session):
            source = source()
        with _psycopg_errors():
            if isinstance(source, AsyncSession):
                source = await source.connection()
            elif not isinstance(source, AsyncConnection):
                raise _unusable(source, "an AsyncSession or AsyncConnection")
            elif not source.in_transaction():
                await source.begin()
            driver = (await source.get_raw_connection()).driver_connection
        if not isinstance(driver, psycopg.AsyncConnection):
            raise _other_driver(source.dialect.driver)
        return driver

    @contextlib.asynccontextmanager
    async def open(self, source: Any) -> AsyncGenerator[_AsyncScope]:
        if not (isinstance(source, async_sessionmaker) or _is_class(source, AsyncSession)):
            raise _unusable(source, "an async_sessionmaker")
        async with cast("AsyncSession", source()) as session:
            yield _AsyncScope(session, await self.connection(session))

    async def join(self, source: Any) -> _AsyncJoined:
        return _AsyncJoined(source, await self.connection(source))


class _Ending:
    """Lets only the worker end the transaction of a scope; in a caller's session it is a savepoint."""

    def __init__(self, session: Session, own: SessionTransaction | None) -> None:
        self._session = session
        self._own = own
        event.listen(session, "before_commit", self._refuse)

    def _refuse(self, session: Session) -> None:
        if (session.get_nested_transaction() or session.get_transaction()) is self._own:
            raise HandlerError(
                "the worker commits the session of context.transaction() together with the acknowledgement; use "
                "flush() to write, or begin_nested() for a savepoint"
            )

    def require_open(self) -> None:
        inner = self._session.get_nested_transaction() or self._session.get_transaction()
        while inner is not None and inner is not self._own:
            inner = inner.parent
        if inner is None:
            raise HandlerError(_ENDED)

    def allow(self) -> None:
        event.remove(self._session, "before_commit", self._refuse)


class _Scope:
    """Transaction of a session, see `pgsluice.frameworks.Scope`."""

    is_committed = False
    _ending: _Ending

    def __init__(self, session: Session, connection: psycopg.Connection[Any]) -> None:
        self.value = session
        self.connection = connection

    @contextlib.contextmanager
    def transaction(self) -> Generator[None]:
        self._ending = _Ending(self.value, self.value.get_transaction())
        try:
            yield
        except BaseException as raised:
            self.value.rollback()
            if not isinstance(raised, psycopg.Rollback):
                raise
        else:
            self._ending.allow()
            self.value.commit()

    def savepoint(self) -> Any:
        return self.value.begin_nested()

    def require_committable(self) -> None:
        self._ending.require_open()
        self.value.flush()


class _AsyncScope:
    """Like `_Scope`, for asyncio."""

    is_committed = False
    _ending: _Ending

    def __init__(self, session: AsyncSession, connection: psycopg.AsyncConnection[Any]) -> None:
        self.value = session
        self.connection = connection

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        session = self.value.sync_session
        self._ending = _Ending(session, session.get_transaction())
        try:
            yield
        except BaseException as raised:
            await self.value.rollback()
            if not isinstance(raised, psycopg.Rollback):
                raise
        else:
            self._ending.allow()
            await self.value.commit()

    def savepoint(self) -> Any:
        return self.value.begin_nested()

    async def require_committable(self) -> None:
        self._ending.require_open()
        await self.value.flush()


class _Joined(_Scope):
    """A savepoint in the transaction of a caller's session, who may commit it afterwards."""

    @contextlib.contextmanager
    def transaction(self) -> Generator[None]:
        with self.value.begin_nested() as own:
            self._ending = _Ending(self.value, own)
            try:
                yield
            finally:
                self._ending.allow()


class _AsyncJoined(_AsyncScope):
    """Like `_Joined`, for asyncio."""

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        async with self.value.begin_nested() as own:
            self._ending = _Ending(self.value.sync_session, own.sync_transaction)
            try:
                yield
            finally:
                self._ending.allow()


@contextlib.contextmanager
def _registered(scoped: scoped_session[Any], session: Session) -> Generator[None]:
    """Let a `scoped_session` return this session."""
    registry = scoped.registry
    before = registry() if registry.has() else None
    registry.set(session)
    try:
        yield
    finally:
        if before is None:
            registry.clear()
        else:
            registry.set(before)


@contextlib.contextmanager
def _psycopg_errors() -> Generator[None]:
    """Raise the error of psycopg that an error of SQLAlchemy wraps.

    Raises:
        ConnectionFailedError: The engine's pool has no connection.
    """
    try:
        yield
    except errors.DBAPIError as error:
        if isinstance(error.orig, psycopg.Error):
            raise error.orig from error
        raise
    except errors.TimeoutError as error:
        raise ConnectionFailedError(
            f"no connection of the engine's pool is free: {error}"
        ) from error


def _is_class(source: Any, kind: type) -> bool:
    return isinstance(source, type) and issubclass(source, kind)


def _unusable(source: Any, expected: str) -> ArgumentError:
    return ArgumentError(f"got {type(source).__name__} of SQLAlchemy; pass {expected}")


def _other_driver(driver: str) -> ArgumentError:
    return ArgumentError(
        f"the driver of this session is {driver}, not psycopg 3; to send, execute "
        "pgsluice.contrib.sqlalchemy.sending(handler, payload) in it; for clients and context.transaction(), create an "
        "engine with postgresql+psycopg://"
    )


ADAPTER = _Adapter()
ASYNC_ADAPTER = _AsyncAdapter()
