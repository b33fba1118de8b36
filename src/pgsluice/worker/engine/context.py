"""What a handler knows of its message, and may do about it while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection, Connection, Rollback
from psycopg.pq import TransactionStatus

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import Call, inbox
from pgsluice.errors import ConnectionFailedError, HandlerError, LeaseLostError
from pgsluice.worker.engine.base_context import BaseContext
from pgsluice.worker.engine.connections import Connections, cut_off, has_ended, watch
from pgsluice.worker.engine.delivery import Delivery, Settled
from pgsluice.worker.engine.ending import is_done
from pgsluice.worker.engine.source import Source
from pgsluice.worker.forks import end_fork
from pgsluice.worker.handlers.handler import HandlerSpec

_HEARTBEAT_S = 30.0
# From the call that extends a lease to the end of the transaction that it waits for.
_CUT_OFF_S = 0.05
ONCE_KEPT = timedelta(days=7)


class Context(BaseContext):
    """What an `async def` handler may do while it runs."""

    _connection: AsyncConnection[Any] | None = None
    # A transaction that acknowledges the message and whose block has ended.
    _pending: tuple[AsyncConnection[Any], contextlib.AsyncExitStack] | None = None

    async def heartbeat(self) -> None:
        """Extend the claim now. The worker does so by itself; this also tells whether it still holds.

        Raises:
            LeaseLostError: The claim is over.
        """
        self._require_own_process()
        if self._source is not None and not self.is_acknowledging:
            with self._reaching():
                lost = await self._source.extend([self._delivery], self._spec.lease_s)
            if lost:
                self.lost.set()
        self._check()

    def transaction(self) -> AbstractAsyncContextManager[AsyncConnection[Any]]:
        """A connection in a transaction that also acknowledges the message: what is written in it has an exactly-once
        effect, although delivery is at least once. In mode `transaction` it is the one that the handler runs in.

        It is committed when the handler returns nothing or `Done`, and rolled back when it returns or raises anything
        else, within the block or after it. In a handler of a batch it is committed at the end of the block.

        Raises:
            LeaseLostError: The claim is over; everything is rolled back.
        """
        return self._within() if self._connection is not None else self._transaction()

    @contextlib.asynccontextmanager
    async def _within(self) -> AsyncGenerator[AsyncConnection[Any]]:
        assert self._connection is not None  # noqa: S101 - looked at by the only caller
        done: BaseException | None = None
        async with self._connection.transaction():
            try:
                yield self._connection
            except BaseException as raised:
                if not is_done(raised):
                    raise
                done = raised
            finally:
                end_fork(self._pid, sys.exception())
        if done is not None:
            raise done

    @contextlib.asynccontextmanager
    async def _transaction(self, *, is_first: bool = False) -> AsyncGenerator[AsyncConnection[Any]]:
        call = self._acknowledgement()
        assert self._connections is not None  # noqa: S101 - else there was no call
        try:
            async with contextlib.AsyncExitStack() as stack:
                with self._reaching():
                    connection = await stack.enter_async_context(self._connections.lend())
                stack.push(self._note_loss(connection))
                await stack.enter_async_context(connection.transaction())
                if is_first:
                    await self._acknowledge(connection, call)
                watch(connection)
                self._connection = connection
                done: BaseException | None = None
                try:
                    yield connection
                except BaseException as raised:
                    if not is_done(raised):
                        raise
                    done = raised  # to raise it and to return it mean the same
                finally:
                    end_fork(self._pid, sys.exception())
                    self._connection = None
                self._check()
                if not is_first:
                    _require_committable(connection)
                    await self._acknowledge(connection, call)
                self._pending = connection, stack.pop_all()
        except BaseException:
            self.is_acknowledging = False
            raise
        if self._commits_at_once:
            await self.commit()
        if done is not None:
            raise done

    async def commit(self) -> None:
        """Commit the transaction whose block has ended, if there is one.

        Raises:
            HandlerError: It is not open any more, or a statement in it failed.
            psycopg.Error: It cannot be committed.
        """
        if self._pending is not None:
            connection, stack = self._pending
            try:
                async with stack:
                    self._pending = None
                    self._check()
                    _require_committable(connection)
                    self._delivery.is_in_doubt = True
                self.is_acknowledged = True
            finally:
                self.is_acknowledging = False

    async def roll_back(self) -> None:
        """Roll back the transaction whose block has ended, if there is one: the handler did not succeed."""
        if self._pending is not None:
            _, stack = self._pending
            try:
                with contextlib.suppress(Rollback):
                    async with stack:
                        self._pending = None
                        raise Rollback
            finally:
                self.is_acknowledging = False

    async def _acknowledge(self, connection: AsyncConnection[Any], call: Call[Settled]) -> None:
        self.is_acknowledging = True
        try:
            settled = await AsyncRunner(connection).run(call)
        except LeaseLostError:
            self.lost.set()
            raise
        self._check(settled)

    async def once(self, key: str, *, keep: timedelta = ONCE_KEPT) -> bool:
        """Note in the transaction of `transaction()` that this handler did something; whether that was the first time.

        Args:
            key: Names what is done once, such as the id of an order, whatever message asks for it.
            keep: For how long it is remembered.

        Raises:
            HandlerError: No transaction is open.
        """
        if self._connection is None:
            raise HandlerError("once() needs the transaction; call it within context.transaction()")
        return await AsyncRunner(self._connection).run(inbox.once(self.handler, key, keep))

    def holding(self) -> AbstractAsyncContextManager[AsyncConnection[Any]]:
        """As `transaction`, with the acknowledgement first, so that its row is locked from the start to the end."""
        return self._transaction(is_first=True)


class SyncContext(BaseContext):
    """What a `def` handler may do while it runs, in its thread."""

    _connection: Connection[Any] | None = None
    # The same, to the end of its transaction.
    _lent: Connection[Any] | None = None
    # A transaction that acknowledges the message and whose block has ended.
    _pending: tuple[Connection[Any], contextlib.ExitStack] | None = None

    def __init__(
        self,
        spec: HandlerSpec,
        delivery: Delivery,
        source: Source | None,
        connections: Connections | None,
    ) -> None:
        super().__init__(spec, delivery, source, connections)
        self._loop = None if source is None else asyncio.get_running_loop()

    def heartbeat(self) -> None:
        """Extend the claim now. The worker does so by itself; this also tells whether it still holds.

        Raises:
            LeaseLostError: The claim is over.
        """
        self._require_own_process()
        if self._source is not None and self._loop is not None and not self.is_acknowledging:
            extension = self._source.extend([self._delivery], self._spec.lease_s)
            beat = asyncio.run_coroutine_threadsafe(_of(extension), self._loop)
            with self._reaching():
                lost = beat.result(_HEARTBEAT_S)
            if lost:
                self.lost.set()
        self._check()

    def transaction(self) -> AbstractContextManager[Connection[Any]]:
        """A connection in a transaction that also acknowledges the message: what is written in it has an exactly-once
        effect, although delivery is at least once. In mode `transaction` it is the one that the handler runs in.

        It is committed when the handler returns nothing or `Done`, and rolled back when it returns or raises anything
        else, within the block or after it. In a handler of a batch it is committed at the end of the block.

        Raises:
            LeaseLostError: The claim is over; everything is rolled back.
        """
        return self._within() if self._connection is not None else self._transaction()

    @contextlib.contextmanager
    def _within(self) -> Generator[Connection[Any]]:
        assert self._connection is not None  # noqa: S101 - looked at by the only caller
        done: BaseException | None = None
        with self._connection.transaction():
            try:
                yield self._connection
            except BaseException as raised:
                if not is_done(raised):
                    raise
                done = raised
            finally:
                end_fork(self._pid, sys.exception())
        if done is not None:
            raise done

    @contextlib.contextmanager
    def _transaction(self, *, is_first: bool = False) -> Generator[Connection[Any]]:
        call = self._acknowledgement()
        assert self._connections is not None  # noqa: S101 - else there was no call
        try:
            with contextlib.ExitStack() as stack:
                with self._reaching():
                    connection = stack.enter_context(self._connections.lend_sync())
                self._lent = connection
                stack.callback(self._give_back)
                stack.push(self._note_loss(connection))
                stack.enter_context(connection.transaction())
                if is_first:
                    self._acknowledge(connection, call)
                watch(connection)
                self._connection = connection
                done: BaseException | None = None
                try:
                    yield connection
                except BaseException as raised:
                    if not is_done(raised):
                        raise
                    done = raised  # to raise it and to return it mean the same
                finally:
                    end_fork(self._pid, sys.exception())
                    self._connection = None
                self._check()
                if not is_first:
                    _require_committable(connection)
                    self._acknowledge(connection, call)
                self._pending = connection, stack.pop_all()
        except BaseException:
            self.is_acknowledging = False
            raise
        if self._commits_at_once:
            self.commit()
        if done is not None:
            raise done

    def commit(self) -> None:
        """Commit the transaction whose block has ended, if there is one.

        Raises:
            HandlerError: It is not open any more, or a statement in it failed.
            psycopg.Error: It cannot be committed.
        """
        if self._pending is not None:
            connection, stack = self._pending
            try:
                with stack:
                    self._pending = None
                    self._check()
                    _require_committable(connection)
                    self._delivery.is_in_doubt = True
                self.is_acknowledged = True
            finally:
                self.is_acknowledging = False

    def roll_back(self) -> None:
        """Roll back the transaction whose block has ended, if there is one: the handler did not succeed."""
        if self._pending is not None:
            _, stack = self._pending
            try:
                with contextlib.suppress(Rollback), stack:
                    self._pending = None
                    raise Rollback
            finally:
                self.is_acknowledging = False

    def _acknowledge(self, connection: Connection[Any], call: Call[Settled]) -> None:
        self.is_acknowledging = True
        try:
            settled = Runner(connection).run(call)
        except LeaseLostError:
            self.lost.set()
            raise
        self._check(settled)

    def once(self, key: str, *, keep: timedelta = ONCE_KEPT) -> bool:
        """Note in the transaction of `transaction()` that this handler did something; whether that was the first time.

        Args:
            key: Names what is done once, such as the id of an order, whatever message asks for it.
            keep: For how long it is remembered.

        Raises:
            HandlerError: No transaction is open.
        """
        if self._connection is None:
            raise HandlerError("once() needs the transaction; call it within context.transaction()")
        return Runner(self._connection).run(inbox.once(self.handler, key, keep))

    def holding(self) -> AbstractContextManager[Connection[Any]]:
        """As `transaction`, with the acknowledgement first, so that its row is locked from the start to the end."""
        return self._transaction(is_first=True)

    def abandon(self, overrun: asyncio.Future[Any]) -> None:
        """Let a thread that cannot be stopped do no more: its transaction is rolled back by the server.

        The statement that runs is cancelled first, as a backend that is busy does not notice a closed connection. The
        connection belongs to the thread, and to close it from another is not safe; its socket can be shut down.

        Args:
            overrun: Done when the thread returns.
        """
        self.overrun = overrun
        self.lost.set()
        connection = self._lent
        if connection is None:
            return
        if self.is_acknowledging and self._source is not None:
            # Its lease may have expired while the transaction held the row. This waits for the row lock, and so
            # extends it when the transaction ends.
            self._extension = asyncio.ensure_future(self._extend(self._source))
        # From a thread: to cancel takes another connection, and may take long.
        timer = threading.Timer(_CUT_OFF_S, self._cut_off, args=[connection])
        timer.daemon = True
        timer.start()

    def _cut_off(self, connection: Connection[Any]) -> None:
        if connection is self._lent:  # else it may be another handler's by now
            cut_off(connection)

    def _give_back(self) -> None:
        self._lent = None

    async def _extend(self, source: Source) -> None:
        with contextlib.suppress(Exception):  # the next heartbeat tells
            async with source.lock_waits.turn(_HEARTBEAT_S) as wait_s:
                await source.extend([self._delivery], self._spec.lease_s, wait_s=wait_s)


def _require_committable(connection: AsyncConnection[Any] | Connection[Any]) -> None:
    """Refuse to commit what COMMIT would roll back, or what is no transaction any more.

    psycopg ends the block of a closed connection without an error, and PostgreSQL answers COMMIT in a failed
    transaction with ROLLBACK.

    Raises:
        HandlerError: It cannot be committed.
    """
    status = connection.info.transaction_status
    if status is TransactionStatus.INTRANS and not has_ended(connection):
        return
    if status is TransactionStatus.INERROR:
        raise HandlerError(
            "the transaction cannot be committed: a statement in it failed, and the handler went on; put statements "
            "that may fail into a block of their own, `with connection.transaction():`"
        )
    if status is TransactionStatus.UNKNOWN:
        raise ConnectionFailedError(
            "the connection was lost before the transaction could be committed; nothing of it was written"
        )
    raise HandlerError(
        "the handler ended the transaction itself; leave COMMIT and ROLLBACK to the worker"
    )


async def _of(awaitable: Any) -> Any:
    return await awaitable
