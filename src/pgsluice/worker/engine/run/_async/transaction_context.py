"""Handler transactions that acknowledge the message."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, TypeVar, overload

from psycopg import AsyncConnection, Rollback
from psycopg.pq import TransactionStatus

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import Call, inbox
from pgsluice.errors import HandlerError, LeaseLostError, QueueNotFoundError
from pgsluice.frameworks import AsyncScope
from pgsluice.outcome import Done
from pgsluice.worker.engine.connections.connections import Connections
from pgsluice.worker.engine.connections.sessions import watch
from pgsluice.worker.engine.delivery import Result
from pgsluice.worker.engine.run.base_context import NOT_LENT, BaseContext, require_committable
from pgsluice.worker.engine.settle.settlement import is_done, settlement_of_result
from pgsluice.worker.forks import end_fork
from pgsluice.worker.handlers.handler import Mode

Session = TypeVar("Session")
_ONCE_KEPT = timedelta(days=7)


class AsyncTransactionContext(BaseContext):
    """A context with transactions."""

    # The open transaction, and what it is on.
    _scope: AsyncScope | None = None
    _on: Any = None
    # A transaction that acknowledges the message, whose block has ended and that is not committed yet.
    _pending: tuple[AsyncScope, contextlib.AsyncExitStack] | None = None

    def _lend(self, connections: Connections, on: Any) -> AbstractAsyncContextManager[AsyncScope]:
        """Lend a connection for a transaction."""
        raise NotImplementedError

    @overload
    def transaction(self) -> AbstractAsyncContextManager[AsyncConnection[Any]]: ...

    @overload
    def transaction(self, on: Callable[..., Session]) -> AbstractAsyncContextManager[Session]: ...

    @overload
    def transaction(self, on: object) -> AbstractAsyncContextManager[Any]: ...

    def transaction(self, on: Any = None) -> AbstractAsyncContextManager[Any]:
        """Open a transaction that also acknowledges the message: writes in it have an exactly-once effect, although
        delivery is at least once. In mode `transaction` it is the transaction the handler already runs in.

        It commits when the handler returns None or `Done`, and rolls back when the handler returns or raises anything
        else, within the block or after it. In a batch handler it commits at the end of the block. Within another block
        it is a savepoint.

        Args:
            on: A factory of sessions, `sessionmaker(engine)` or `async_sessionmaker(engine)` of SQLAlchemy: a session
                of it in whose transaction the message is acknowledged. Or `django.db.connection`, in a `def` handler.
                None: the app's `transactions`, else a connection of the worker.

        Returns:
            A context manager that yields the session, Django's connection or the connection of psycopg.

        Raises:
            LeaseLostError: The lease has expired; everything is rolled back.
            HandlerError: `on` cannot be used, or the open transaction is on something else.
        """
        if self._scope is None:
            return self._transaction(self._spec.transactions if on is None else on)
        if on is not None and on is not self._on:
            raise HandlerError(
                "a transaction of the handler is already open on something else; a message is acknowledged in one"
            )
        return self._within(self._scope)

    @contextlib.asynccontextmanager
    async def _within(self, scope: AsyncScope) -> AsyncGenerator[Any]:
        done: BaseException | None = None
        async with scope.savepoint():
            try:
                yield scope.value
            except BaseException as raised:
                if not is_done(raised):
                    raise
                done = raised
            finally:
                end_fork(self._pid, sys.exception())
        if done is not None:
            raise done

    @contextlib.asynccontextmanager
    async def _transaction(self, on: Any, *, is_first: bool = False) -> AsyncGenerator[Any]:
        call = self._acknowledgement()
        assert self._connections is not None  # noqa: S101 - else _acknowledgement raised
        try:
            async with contextlib.AsyncExitStack() as stack:
                with self._reaching(NOT_LENT):
                    scope = await stack.enter_async_context(self._lend(self._connections, on))
                stack.push(self._recorded_loss(scope.connection))
                await stack.enter_async_context(scope.transaction())
                if is_first:
                    await self._acknowledge(scope.connection, call)
                elif scope.connection.info.transaction_status is TransactionStatus.IDLE:
                    # Sends BEGIN, also if the handler sends nothing.
                    await scope.connection.execute("")
                watch(scope.connection)
                self._scope, self._on = scope, on
                done: BaseException | None = None
                try:
                    yield scope.value
                except BaseException as raised:
                    if not is_done(raised):
                        raise
                    done = raised  # Done raised is the same as Done returned
                finally:
                    end_fork(self._pid, sys.exception())
                    self._scope = None
                self._check()
                await scope.require_committable()
                if not is_first:
                    require_committable(scope.connection)
                    await self._acknowledge(scope.connection, call)
                self._pending = scope, stack.pop_all()
        except BaseException:
            self.is_acknowledging = False
            raise
        if self._commits_at_once:
            await self.commit()
        if done is not None:
            raise done

    async def run_function(self, payload: Any) -> Any:
        """Call the handler's function, then commit or roll back the transaction that it opened, by its outcome."""
        spec = self._spec
        arguments = (payload, self) if spec.takes_context else (payload,)
        try:
            async with (
                self.holding() if spec.mode is Mode.TRANSACTION else contextlib.nullcontext()
            ):
                result = await spec.function(*arguments)
        except BaseException as error:
            if not is_done(error):
                await self.roll_back()
                raise
            result = error
        settlement = settlement_of_result(spec, result)
        if isinstance(settlement.outcome, Done):
            await self.commit(settlement.returned)
        else:
            await self.roll_back()
        return result

    async def commit(self, returned: str | None = None) -> None:
        """Commit the transaction whose block has ended, if any.

        Args:
            returned: The handler's result as JSON text, stored if its handler keeps results.

        Raises:
            HandlerError: It is not open any more, or a statement in it failed.
            psycopg.Error: The commit failed.
        """
        if self._pending is not None:
            scope, stack = self._pending
            try:
                async with stack:
                    self._pending = None
                    self._check()
                    await scope.require_committable()
                    require_committable(scope.connection)
                    await self._store(scope.connection, returned)
                    self._delivery.is_in_doubt = True
                self.is_acknowledged = True
            except BaseException:
                self.is_acknowledged = scope.is_committed
                raise
            finally:
                self.is_acknowledging = False

    async def roll_back(self) -> None:
        """Roll back the transaction whose block has ended, if any: the handler failed."""
        if self._pending is not None:
            _, stack = self._pending
            self._pending = None
            try:
                # Like an exception raised in the block: the transaction rolls back and swallows it.
                await stack.__aexit__(Rollback, Rollback(), None)
            finally:
                self.is_acknowledging = False

    async def _acknowledge(self, connection: AsyncConnection[Any], call: Call[Result]) -> None:
        self.is_acknowledging = True
        try:
            result = await AsyncRunner(connection).run(call)
        except LeaseLostError:
            self.lost.set()
            raise
        except QueueNotFoundError:  # the claim went with the queue, also if it was created again
            result = "lost"
        self._check(result)

    async def _store(self, connection: AsyncConnection[Any], returned: str | None) -> None:
        if returned is not None and self._source is not None:
            call = self._source.storing(self._delivery, returned)
            if call is not None:
                await AsyncRunner(connection).run(call)

    async def once(self, key: str, *, keep: timedelta = _ONCE_KEPT) -> bool:
        """Record an idempotency key in the open transaction; True if this handler had not recorded it before.

        Args:
            key: Identifies the side effect across messages, such as an order id.
            keep: Retention of the key.

        Raises:
            HandlerError: No transaction is open.
        """
        if self._scope is None:
            raise HandlerError("once() needs the transaction; call it within context.transaction()")
        runner = AsyncRunner(self._scope.connection)
        return await runner.run(inbox.once(self.handler, key, keep=keep))

    def holding(self) -> AbstractAsyncContextManager[Any]:
        """Like `transaction`, but acknowledge first, so that the message's row stays locked throughout."""
        return self._transaction(self._spec.transactions, is_first=True)
