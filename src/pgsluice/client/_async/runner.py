"""Run calls: on a pool each in a transaction of its own, on a connection in the caller's transaction."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import psycopg
from psycopg import AsyncConnection, AsyncServerCursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg_pool import AsyncConnectionPool

from pgsluice.client.calls.call import Call, Copy, Steps
from pgsluice.client.sources import AsyncConnectable, require_async_source
from pgsluice.client.unloadable import ERRORS, rows_with_unloadable
from pgsluice.connection import tuple_cursor
from pgsluice.errors import commit_unknown, translate
from pgsluice.sessions import needs_begin, require_readable, server_encoding
from pgsluice.tracing.carrier import Sends
from pgsluice.tracing.switch import tracing

if TYPE_CHECKING:
    from pgsluice.tracing.spans import Tracing

Result = TypeVar("Result")


class AsyncRunner:
    """Run calls on a pool or a connection that the caller opens and closes."""

    def __init__(
        self,
        source: AsyncConnectable,
        *,
        is_traced: bool = True,
    ) -> None:
        self._adapter = require_async_source(source)
        self._source: Any = source
        self._is_traced = is_traced

    async def run(self, call: Call[Result]) -> Result:
        """Run one call.

        Raises:
            SluiceError: The subclass for the server's error.
        """
        if call.sends is not None and self._is_traced and (traced := tracing()) is not None:
            return await self._send(call, call.sends, traced)
        try:
            if isinstance(self._source, AsyncConnectionPool):
                async with self._source.connection() as connection:
                    return await _execute_alone(connection, call)
            return await _execute_given(await self._given(), call)
        except psycopg.Error as error:
            raise translate(error, queue_name=call.queue_name) from error

    async def run_steps(self, steps: Steps[Result]) -> Result:
        """Run dependent calls in one transaction: all or none.

        Raises:
            SluiceError: As for `run`, or raised by a step.
        """
        try:
            if isinstance(self._source, AsyncConnectionPool):
                async with self._source.connection() as connection:
                    return await _execute_steps(connection, steps)
            return await _execute_steps(await self._given(), steps)
        except psycopg.Error as error:  # from the pool or the commit
            raise translate(error) from error

    async def stream(
        self, query: Call[str], fetch_qty: int
    ) -> AsyncGenerator[list[tuple[Any, ...]]]:
        """Run the query that a call returns as text, and yield its rows in pages of `fetch_qty`.

        Raises:
            SluiceError: As for `run`.
        """
        try:
            if isinstance(self._source, AsyncConnectionPool):
                async with (
                    self._source.connection() as connection,
                    connection.transaction(),
                    aclosing(_stream(connection, query, fetch_qty)) as pages,
                ):
                    async for page in pages:
                        yield page
            else:
                async with aclosing(_stream(await self._given(), query, fetch_qty)) as pages:
                    async for page in pages:
                        yield page
        except psycopg.Error as error:
            raise translate(error) from error

    async def run_or_copy(self, work: Call[int] | Copy) -> int:
        """Run a call, or copy rows into a table: all or none.

        Raises:
            SluiceError: As for `run`, or raised by the iterator of rows.
        """
        if isinstance(work, Call):
            return await self.run(work)
        if work.sends is not None and self._is_traced and (traced := tracing()) is not None:
            return await self._send_copy(work, work.sends, traced)
        try:
            if isinstance(self._source, AsyncConnectionPool):
                async with self._source.connection() as connection:
                    return await _copy(connection, work)
            return await _copy(await self._given(), work)
        except psycopg.Error as error:
            raise translate(error) from error

    async def _given(self) -> AsyncConnection[Any]:
        """Return the caller's connection: of a session, that of its transaction now."""
        if self._adapter is None:
            return cast("AsyncConnection[Any]", self._source)
        return await self._adapter.connection(self._source)

    async def _send(self, call: Call[Result], sends: Sends, traced: Tracing) -> Result:
        """Run a call that sends messages, within its span."""
        with traced.sending(sends, sends.given(call.parameters)) as operation:
            parameters = sends.with_context(call.parameters, operation.carrier)
            sent = await self.run(replace(call, parameters=parameters, sends=None))
            if sends.returns_id and sends.qty is None and sent is not None:
                operation.identify(sent)
        return sent

    async def _send_copy(self, work: Copy, sends: Sends, traced: Tracing) -> int:
        """Copy events, within the span that sends them."""
        with traced.sending(sends, ()) as operation:
            rows = (sends.with_context(row, operation.carrier) for row in work.rows)
            operation.count = await self.run_or_copy(replace(work, rows=rows, sends=None))
        return operation.count


async def _stream(
    connection: AsyncConnection[Any], query: Call[str], fetch_qty: int
) -> AsyncGenerator[list[tuple[Any, ...]]]:
    text = await _execute(connection, query, query.sql)
    # A cursor needs a transaction; without one, `with hold` keeps the rows until the cursor is closed.
    is_alone = (
        connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE
    )
    cursor = connection.cursor(
        f"pgsluice_{uuid.uuid4().hex}", row_factory=tuple_row, withhold=is_alone
    )
    try:
        require_readable(connection)
        await cursor.execute(text.encode())
        page = await _fetch(cursor, fetch_qty)
        while page:
            yield page
            # A partial page is the last: most batches are small, and another fetch would be a round trip.
            page = await _fetch(cursor, fetch_qty) if len(page) == fetch_qty else []
    finally:
        try:
            await cursor.close()
        except psycopg.OperationalError:
            await cursor.close()  # the connection is now marked as broken: nothing is sent
            raise


async def _fetch(cursor: AsyncServerCursor[Any], fetch_qty: int) -> list[tuple[Any, ...]]:
    try:
        return await cursor.fetchmany(fetch_qty)
    except ERRORS as error:
        return rows_with_unloadable(cursor, error)


async def _copy(connection: AsyncConnection[Any], work: Copy) -> int:
    if connection.autocommit:
        async with connection.transaction():
            return await _copy_rows(connection, work)
    return await _copy_rows(connection, work)  # in the caller's transaction: see _execute_steps


async def _copy_rows(connection: AsyncConnection[Any], work: Copy) -> int:
    statement = await _execute(connection, work.statement, work.statement.sql)
    async with tuple_cursor(connection) as cursor:
        async with cursor.copy(statement) as copy:
            for row in work.rows:
                await copy.write_row(row)
        return cursor.rowcount


async def _execute_alone(connection: AsyncConnection[Any], call: Call[Result]) -> Result:
    sql = call.own_transaction_sql or call.sql
    if connection.info.transaction_status != TransactionStatus.IDLE:
        return await _execute(connection, call, sql)
    if connection.autocommit:
        return await _execute_whole(connection, call, sql)
    # In autocommit mode, one statement is a transaction without the round trips of begin and commit.
    await connection.set_autocommit(True)
    try:
        return await _execute_whole(connection, call, sql)
    finally:
        if (
            connection.info.transaction_status == TransactionStatus.IDLE
        ):  # else the pool discards it
            await connection.set_autocommit(False)


async def _execute_given(connection: AsyncConnection[Any], call: Call[Result]) -> Result:
    is_alone = (
        connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE
    )
    return await (_execute_whole if is_alone else _execute)(connection, call, call.sql)


async def _execute_whole(connection: AsyncConnection[Any], call: Call[Result], sql: Any) -> Result:
    """Run a statement that is a whole transaction: without its reply, the outcome of the commit is unknown."""
    try:
        if needs_begin(connection):
            async with connection.transaction():
                return await _execute(connection, call, sql)
        return await _execute(connection, call, sql)
    except psycopg.OperationalError as error:
        if connection.broken:
            raise commit_unknown(error) from error
        raise


async def _execute_steps(connection: AsyncConnection[Any], steps: Steps[Result]) -> Result:
    if connection.autocommit:
        async with connection.transaction():
            return await _execute_each(connection, steps)
    # Without autocommit, the transaction is the caller's, even if begun here: psycopg's block would commit it.
    return await _execute_each(connection, steps)


async def _execute_each(connection: AsyncConnection[Any], steps: Steps[Result]) -> Result:
    result: Any = None
    while True:
        try:
            call = steps.send(result)
        except StopIteration as end:
            return cast("Result", end.value)
        try:
            result = await _execute(connection, call, call.sql)
        except psycopg.Error as error:
            raise translate(error, queue_name=call.queue_name) from error


async def _execute(connection: AsyncConnection[Any], call: Call[Result], sql: Any) -> Result:
    require_readable(connection)
    parameters = call.parameters
    if call.is_report:
        parameters = call.parameters_in(server_encoding(connection))
    async with tuple_cursor(connection) as cursor:
        await cursor.execute(sql, parameters)
        if (
            cursor.pgresult is None
        ):  # in a caller's pipeline: leaving a nested one waits for the result
            async with connection.pipeline():
                pass
        # None for a statement without rows; checking the description would cost a tenth of a call.
        if cursor.rownumber is None:
            return call.read_rows(())
        try:
            rows = await cursor.fetchall()
        except ERRORS as error:
            rows = rows_with_unloadable(cursor, error)
        return call.read_rows(rows)
