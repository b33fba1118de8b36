"""A common interface of PGMQ's own four Python clients, sync and async."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pgmq
from psycopg.conninfo import conninfo_to_dict

CLIENTS = {
    "psycopg": pgmq.SyncPGMQueue,
    "asyncpg": pgmq.AsyncPGMQueue,
    "sqlalchemy": pgmq.SQLAlchemyPGMQueue,
    "sqlalchemy-asyncpg": pgmq.SQLAlchemyAsyncPGMQueue,
}
TRANSACTIONS = {
    "psycopg": pgmq.transaction,
    "asyncpg": pgmq.async_transaction,
    "sqlalchemy": pgmq.sqlalchemy_transaction,
    "sqlalchemy-asyncpg": pgmq.sqlalchemy_async_transaction,
}


class AbandonedError(Exception):
    """Raised to roll back a transaction."""


class OfficialClient:
    """A connected client; `called` holds the names of the called methods."""

    def __init__(self, kind: str, url: str, **options: Any) -> None:
        address = conninfo_to_dict(url)
        self.kind = kind
        self.called: set[str] = set()
        self._runner = asyncio.Runner()
        try:
            self.wrapped = CLIENTS[kind](
                host=address["host"],
                port=str(address["port"]),
                database=address["dbname"],
                username=address["user"],
                password=address["password"],
                pool_size=2,
                **({"init_extension": False} | options),
            )
            if hasattr(self.wrapped, "init"):
                self.run(self.init)
        except BaseException:
            self._runner.close()
            raise

    def run(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call a function; run the result if it is a coroutine."""
        result = function(*arguments, **named)
        return self._runner.run(result) if inspect.iscoroutine(result) else result

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.wrapped, name)

        def call(*arguments: Any, **named: Any) -> Any:
            self.called.add(name)
            return self.run(method, *arguments, **named)

        return call

    def send_and_abandon(self, queue: str, message: dict[str, Any]) -> None:
        """Send in a transaction of the package's decorator, which then fails."""
        wrapped = self.wrapped
        if self.is_async:

            async def work(_: Any, conn: Any = None) -> None:
                await wrapped.send(queue, message, conn=conn)
                raise AbandonedError

        else:

            def work(_: Any, conn: Any = None) -> None:
                wrapped.send(queue, message, conn=conn)
                raise AbandonedError

        self.run(TRANSACTIONS[self.kind](work), wrapped)

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(CLIENTS[self.kind].send)

    def shut(self) -> None:
        """Close the client by the name of its close method."""
        self.run(getattr(self.wrapped, "close", None) or self.wrapped.dispose)
        self._runner.close()


def public_methods(client: type) -> set[str]:
    return {
        name
        for name, _ in inspect.getmembers(client, inspect.isroutine)
        if not name.startswith("_")
    }


def sqlstate_of(error: BaseException | None) -> str | None:
    """Return the SQLSTATE of an error, unwrapped from the driver's and SQLAlchemy's errors."""
    while error is not None:
        code = getattr(error, "sqlstate", None)
        if code:
            return str(code)
        error = getattr(error, "orig", None) or error.__cause__
    return None
