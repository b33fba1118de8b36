"""The `Call`: everything about one call of a SQL function but the connection."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, LiteralString, TypeVar

from psycopg import sql

from pgsluice.client.records import Message
from pgsluice.errors import ArgumentError

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Call(Generic[Result]):
    """One call of a SQL function.

    Attributes:
        sql: The statement, with `%s` for each parameter.
        parameters: Their values, in order.
        read_rows: Turns the rows, as tuples, into what the client returns.
        queue_name: The work queue it names, so that an error can name it too.
        own_transaction_sql: What to run instead where the call is a transaction of its own. A claim may then commit
            asynchronously: lost in a crash, it only leaves the message visible. It must not in the caller's
            transaction, which may hold more than the claim.
    """

    sql: LiteralString
    parameters: tuple[Any, ...]
    read_rows: Callable[[Sequence[tuple[Any, ...]]], Result]
    queue_name: str | None = None
    own_transaction_sql: LiteralString | None = None

    def __post_init__(self) -> None:
        """Refuse text that PostgreSQL cannot take, before anything is sent.

        Raises:
            ArgumentError: A name or another text holds a NUL or a lone surrogate.
        """
        for value in self.parameters:
            if isinstance(value, str):
                require_storable(value)


@dataclass(frozen=True, slots=True)
class Copy:
    """A COPY into a table that is known only when it begins.

    Attributes:
        statement: The call that returns the COPY statement, to run in the same transaction.
        rows: What to copy; taken one by one.
    """

    statement: Call[sql.Composed]
    rows: Iterator[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Stream(Generic[Result]):
    """Rows that are read page by page, however many there are.

    Attributes:
        query: The call that returns the query, to run in the same transaction.
        fetch_qty: Rows of a page, 1 or more.
        read_row: Turns the columns of a row into what the client yields.
    """

    query: Call[str]
    fetch_qty: int
    read_row: Callable[..., Result]


# What is cheaper depends on the rows: a call that takes them as arrays, or a COPY.
CallOrCopy = Call[Result] | Copy

# Calls one after the other, each chosen by the result of the one before: it yields calls, is sent their results, and
# returns its own. They are one transaction, all or none.
Steps = Generator[Call[Any], Any, Result]


def no_change(result: Result) -> Call[Result]:
    """A call that asks nothing and changes nothing, for tests of what runs calls.

    Args:
        result: What it returns.
    """
    return Call("select", (), lambda _rows: result)


def require_storable(text: str) -> None:
    """Refuse text that PostgreSQL cannot take.

    Raises:
        ArgumentError: It holds a NUL or a lone surrogate.
    """
    if not is_storable(text):
        raise ArgumentError(
            f"the text {text!r} holds a NUL character or a lone surrogate, which PostgreSQL cannot take; remove it"
        )


def is_storable(text: str) -> bool:
    """Whether PostgreSQL can hold this text in UTF-8."""
    try:
        return b"\x00" not in text.encode("utf-8")
    except UnicodeEncodeError:
        return False


def storable(text: str) -> str:
    """A text that may quote anything, as an error does, with what PostgreSQL cannot store written out."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def scalar(rows: Sequence[tuple[Any, ...]]) -> Any:
    """The one value of the one row."""
    return rows[0][0]


def column(rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The one value of each row."""
    return [row[0] for row in rows]


def truth(rows: Sequence[tuple[Any, ...]]) -> bool:
    """Return the one value of the one row, a number, as a bool."""
    return bool(scalar(rows))


def row(rows: Sequence[tuple[Any, ...]]) -> Any:
    """Return the one row."""
    return rows[0]


def nothing(_rows: Sequence[tuple[Any, ...]]) -> None:
    """What a function that returns void returns."""


def record(kind: Callable[..., Result]) -> Callable[[Sequence[tuple[Any, ...]]], list[Result]]:
    """Each row as a record of this kind."""
    return lambda rows: [kind(*row) for row in rows]


def one(kind: Callable[..., Result]) -> Callable[[Sequence[tuple[Any, ...]]], Result]:
    """Return the one row as a record of this kind."""
    return lambda rows: kind(*rows[0])


def one_or_none(
    kind: Callable[..., Result],
) -> Callable[[Sequence[tuple[Any, ...]]], Result | None]:
    """Return the one row as a record of this kind; None without a row, or when its first column is null."""
    return lambda rows: kind(*rows[0]) if rows and rows[0][0] is not None else None


def claim(
    function: LiteralString,
    parameters: tuple[Any, ...],
    queue_name: str,
    *,
    keeps_order: bool = False,
) -> Call[list[Message]]:
    """A call that claims messages, and commits asynchronously where it is a transaction of its own.

    Args:
        function: The call of the SQL function, with `%s` for each parameter.
        parameters: Their values, in order.
        queue_name: The queue.
        keeps_order: The order of its rows is its own, and not that of the msg_ids.
    """
    sql, own_transaction_sql = _claims(function, keeps_order=keeps_order)
    return Call(sql, parameters, record(Message), queue_name, own_transaction_sql)


@functools.cache  # of a few functions; made once, the driver also hashes them once
def _claims(function: LiteralString, *, keeps_order: bool) -> tuple[LiteralString, LiteralString]:
    columns: LiteralString = "message.*"
    rows: LiteralString = "as message order by message.msg_id"
    if keeps_order:
        columns = (
            "message.msg_id, message.read_ct, message.enqueued_at, message.last_read_at, message.vt, "
            "message.message, message.headers"
        )
        rows = "with ordinality as message order by message.ordinality"
    quietly: LiteralString = "pg_catalog.set_config('synchronous_commit', 'off', true)"
    # All of it is in our source: LiteralString refuses anything else.
    own: LiteralString = f"select {columns} from {quietly}, {function} {rows}"  # noqa: S608
    return "select * from " + function, own  # noqa: S608
