# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""Transactions of a handler that acknowledge its message."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

from psycopg import Connection, Rollback

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import Call, inbox
from pgsluice.errors import HandlerError, LeaseLostError
from pgsluice.worker.engine.base_context import BaseContext, require_committable
from pgsluice.worker.engine.connections import Connections, watch
from pgsluice.worker.engine.settlement import Result, is_done
from pgsluice.worker.forks import end_fork

_ONCE_KEPT = timedelta(days=7)


class TransactionContext(BaseContext):
    """A context with transactions."""

    _connection: Connection[Any] | None = None
    # A transaction that acknowledges the message and whose block has ended.
    _pending: tuple[Connection[Any], contextlib.ExitStack] | None = None

    def _lend(self, connections: Connections) -> AbstractContextManager[Connection[Any]]:
        """Lend a connection for a transaction."""
        raise NotImplementedError

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
                    connection = stack.enter_context(self._lend(self._connections))
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
                    require_committable(connection)
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
                    require_committable(connection)
                    self._delivery.is_in_doubt = True
                self.is_acknowledged = True
            finally:
                self.is_acknowledging = False

    def roll_back(self) -> None:
        """Roll back the transaction whose block has ended, if there is one: the handler did not succeed."""
        if self._pending is not None:
            _, stack = self._pending
            self._pending = None
            try:
                # As if it were raised in the block: the transaction takes it.
                stack.__exit__(Rollback, Rollback(), None)
            finally:
                self.is_acknowledging = False

    def _acknowledge(self, connection: Connection[Any], call: Call[Result]) -> None:
        self.is_acknowledging = True
        try:
            result = Runner(connection).run(call)
        except LeaseLostError:
            self.lost.set()
            raise
        self._check(result)

    def once(self, key: str, *, keep: timedelta = _ONCE_KEPT) -> bool:
        """Note in the transaction of `transaction()` that this handler did something; whether that was the first time.

        Args:
            key: Names what is done once, such as the id of an order, whatever message asks for it.
            keep: For how long it is remembered.

        Raises:
            HandlerError: No transaction is open.
        """
        if self._connection is None:
            raise HandlerError("once() needs the transaction; call it within context.transaction()")
        return Runner(self._connection).run(inbox.once(self.handler, key, keep=keep))

    def holding(self) -> AbstractContextManager[Connection[Any]]:
        """As `transaction`, with the acknowledgement first, so that its row is locked from the start to the end."""
        return self._transaction(is_first=True)
