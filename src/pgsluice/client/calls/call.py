"""`Call`: one call of a SQL function, independent of any connection."""

from __future__ import annotations

import codecs
import functools
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, LiteralString, TypeVar

from psycopg import sql
from psycopg.types.json import Jsonb

from pgsluice.client.records import Message
from pgsluice.errors import ArgumentError
from pgsluice.tracing.carrier import Sends

Result = TypeVar("Result")
Converted = TypeVar("Converted")


@dataclass(frozen=True, slots=True)
class Call(Generic[Result]):
    """Statement, parameters and row reader of one call of a SQL function.

    Attributes:
        sql: The statement, with `%s` for each parameter.
        parameters: Their values, in order.
        read_rows: Converts the rows (tuples) to the client's return value.
        queue_name: The work queue of the call, for error messages.
        own_transaction_sql: Statement to run instead when the call is a transaction of its own. A read may then commit
            asynchronously: a crash that loses it only leaves the message visible. The caller's transaction may hold
            other writes and must commit as the caller chose.
        sends: What the call sends, for traces; None: nothing.
        is_report: True if its texts report an error: characters that the database's encoding lacks are escaped, as the
            error must be stored.
    """

    sql: LiteralString
    parameters: tuple[Any, ...]
    read_rows: Callable[[Sequence[tuple[Any, ...]]], Result]
    queue_name: str | None = None
    own_transaction_sql: LiteralString | None = None
    sends: Sends | None = None
    is_report: bool = False

    def then(self, convert: Callable[[Result], Converted]) -> Call[Converted]:
        """Return the call with its result converted."""
        return Call(
            self.sql,
            self.parameters,
            lambda rows: convert(self.read_rows(rows)),
            self.queue_name,
            self.own_transaction_sql,
            self.sends,
            self.is_report,
        )

    def parameters_in(self, encoding: str) -> tuple[Any, ...]:
        """Return the parameters for a database in this encoding, by PostgreSQL's name."""
        if not self.is_report or encoding == "UTF8":
            return self.parameters
        return tuple(_escaped(value, _codec(encoding)) for value in self.parameters)

    def __post_init__(self) -> None:
        """Refuse text that PostgreSQL cannot store, before the statement is sent.

        Raises:
            ArgumentError: A name or other text contains a NUL or a lone surrogate.
        """
        for value in self.parameters:
            if isinstance(value, str):
                require_storable(value)


@dataclass(frozen=True, slots=True)
class Copy:
    """A COPY into a table that the server chooses.

    Attributes:
        statement: Call that returns the COPY statement, to run in the same transaction.
        rows: Rows to copy; consumed one by one.
        sends: What it sends, by position in a row; None: nothing.
    """

    statement: Call[sql.Composed]
    rows: Iterator[tuple[Any, ...]]
    sends: Sends | None = None


@dataclass(frozen=True, slots=True)
class Stream(Generic[Result]):
    """Rows read page by page, in bounded memory.

    Attributes:
        query: Call that returns the query, to run in the same transaction.
        fetch_qty: Rows per page, 1 or more.
        read_row: Converts the columns of a row to the value that the client yields.
    """

    query: Call[str]
    fetch_qty: int
    read_row: Callable[..., Result]


# Arrays are cheaper for few rows, COPY for many.
CallOrCopy = Call[Result] | Copy

# Dependent calls in one transaction: the generator yields calls, receives their results and returns the final result.
Steps = Generator[Call[Any], Any, Result]


def no_change(result: Result) -> Call[Result]:
    """Return a call without effect, for tests of the runners.

    Args:
        result: The result of the call.
    """
    return Call("select", (), lambda _rows: result)


def require_storable(text: str) -> None:
    """Refuse text that PostgreSQL cannot store.

    Raises:
        ArgumentError: The text contains a NUL or a lone surrogate.
    """
    if not is_storable(text):
        raise ArgumentError(
            f"the text {text!r} holds a NUL character or a lone surrogate, which PostgreSQL cannot store; remove it"
        )


def is_storable(text: str) -> bool:
    """True if PostgreSQL can store this text in UTF-8."""
    try:
        return b"\x00" not in text.encode("utf-8")
    except UnicodeEncodeError:
        return False


def storable(text: str) -> str:
    """Return a text with NULs and lone surrogates escaped, so that PostgreSQL can store it."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def storable_in(text: str, encoding: str) -> str:
    """Return a text as `storable` does, with the characters escaped that a database in this encoding lacks."""
    kept = storable(text)
    return kept if encoding == "UTF8" else str(_escaped(kept, _codec(encoding)))


def storable_text(text: str | None) -> str | None:
    """Return an optional text as `storable` does."""
    return None if text is None else storable(text)


def _escaped(value: Any, codec: str) -> Any:
    if isinstance(value, str):
        return value.encode(codec, "backslashreplace").decode(codec)
    if isinstance(value, dict):
        return {_escaped(key, codec): _escaped(item, codec) for key, item in value.items()}
    if isinstance(value, list):
        return [_escaped(item, codec) for item in value]
    if isinstance(value, Jsonb):
        return Jsonb(_escaped(value.obj, codec), dumps=value.dumps)
    return value


def _codec(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except LookupError:  # Python has another name for it
        return "ascii"


def scalar(rows: Sequence[tuple[Any, ...]]) -> Any:
    """Return the only value of the only row."""
    return rows[0][0]


def column(rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return the only value of each row."""
    return [row[0] for row in rows]


def truth(rows: Sequence[tuple[Any, ...]]) -> bool:
    """Return the only value of the only row, a number, as a bool."""
    return bool(scalar(rows))


def row(rows: Sequence[tuple[Any, ...]]) -> Any:
    """Return the only row."""
    return rows[0]


def nothing(_rows: Sequence[tuple[Any, ...]]) -> None:
    """Return None, for functions that return void."""


def record(kind: Callable[..., Result]) -> Callable[[Sequence[tuple[Any, ...]]], list[Result]]:
    """Return a reader of rows as records of this class."""
    return lambda rows: [kind(*row) for row in rows]


def one(kind: Callable[..., Result]) -> Callable[[Sequence[tuple[Any, ...]]], Result]:
    """Return a reader of the only row as a record of this class."""
    return lambda rows: kind(*rows[0])


def one_or_none(
    kind: Callable[..., Result],
) -> Callable[[Sequence[tuple[Any, ...]]], Result | None]:
    """Return a reader of the only row as a record; None without a row, or if its first column is null."""
    return lambda rows: kind(*rows[0]) if rows and rows[0][0] is not None else None


def claim(
    function: LiteralString,
    parameters: tuple[Any, ...],
    queue_name: str,
    *,
    keeps_order: bool = False,
) -> Call[list[Message]]:
    """Return a call that reads messages, and commits asynchronously when it is a transaction of its own.

    Args:
        function: The call of the SQL function, with `%s` for each parameter.
        parameters: Their values, in order.
        queue_name: The queue.
        keeps_order: Keep the function's order of rows; else sort them by msg_id.
    """
    sql, own_transaction_sql = _claims(function, keeps_order=keeps_order)
    return Call(sql, parameters, record(Message), queue_name, own_transaction_sql)


@functools.cache  # few functions; the driver hashes a reused text once
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
    # No input of callers: LiteralString accepts only texts of our source.
    own: LiteralString = f"select {columns} from {quietly}, {function} {rows}"  # noqa: S608
    return "select * from " + function, own  # noqa: S608
