"""Clients of commands: each call is a transaction, and an error names the command that creates what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Any, TypeVar

from psycopg_pool import ConnectionPool

from pgsluice.cli.parsing import json_value
from pgsluice.client import EventLog, ShareGroup, WorkQueue
from pgsluice.connection import Target, connect, resolve, tcp_options
from pgsluice.errors import GroupNotFoundError, LogNotFoundError, PayloadError, QueueNotFoundError

Sent = TypeVar("Sent")

# Messages in one transaction.
STEP = 1_000


def one_connection(target: Target) -> ConnectionPool[Any]:
    """A pool of one connection, open, for what runs until it is interrupted."""
    options = tcp_options(target.conninfo)
    return ConnectionPool(target.conninfo, min_size=1, max_size=1, kwargs=options, open=True)


def pages(
    browse: Callable[..., Sequence[Any]],
    id_name: str,
    after_id: int | None,
    qty: int | None,
    matching: dict[str, Any],
) -> Iterator[Sequence[Any]]:
    """Read records a thousand at a time, lowest id first.

    Args:
        browse: The client's method.
        id_name: The name of a record's id.
        after_id: Only records with a higher id; None: from the first on.
        qty: The most to read; None: all.
        matching: The filter.
    """
    while qty is None or qty > 0:
        asked = STEP if qty is None else min(qty, STEP)
        page = browse(**{f"after_{id_name}": after_id}, qty=asked, **matching)
        yield page
        if len(page) < asked:
            return
        after_id = getattr(page[-1], id_name)
        qty = None if qty is None else qty - len(page)


def send_texts(texts: Iterable[str], send: Callable[[list[Any]], Sent]) -> Iterator[Sent]:
    """Send JSON texts a thousand at a time; yields what `send` returns.

    Raises:
        PayloadError: A text is not JSON; the error says how many were sent before.
    """
    sent = 0
    numbered = enumerate(texts, 1)
    while batch := list(islice(numbered, STEP)):
        try:
            returned = send([json_value(text, f"message {number}") for number, text in batch])
        except PayloadError as error:
            raise PayloadError(f"{error}; {sent} messages were sent before it") from error
        sent += len(batch)
        yield returned


@contextmanager
def work_queue(dsn: str | None, queue_name: str | None = None) -> Iterator[WorkQueue]:
    """A client whose calls are transactions of their own; a missing queue is named with the command that makes it."""
    with connect(resolve(dsn), autocommit=True) as connection:
        try:
            yield WorkQueue(connection)
        except QueueNotFoundError as error:
            if error.sqlstate != "42P01":
                raise  # it names the queue itself, which may be another one
            raise QueueNotFoundError(
                f"queue {queue_name!r} does not exist; create it with `pgsluice queue create {queue_name}`",
                sqlstate=error.sqlstate,
            ) from error


@contextmanager
def naming_the_way_out(queue_name: str | None) -> Iterator[None]:
    """Name a missing log with the command that makes it."""
    try:
        yield
    except LogNotFoundError as error:
        raise LogNotFoundError(
            f"event log {queue_name!r} does not exist; create it with `pgsluice log create {queue_name}`",
            sqlstate=error.sqlstate,
        ) from error


@contextmanager
def event_log(dsn: str | None, queue_name: str | None = None) -> Iterator[EventLog]:
    """A client whose calls are transactions of their own."""
    with connect(resolve(dsn), autocommit=True) as connection, naming_the_way_out(queue_name):
        yield EventLog(connection)


@contextmanager
def share_group(
    dsn: str | None, queue_name: str, group_name: str, other_log: str | None = None
) -> Iterator[ShareGroup]:
    """A client whose calls are transactions of their own; what is missing is named with the command that makes it."""
    with ExitStack() as stack:
        connection = stack.enter_context(connect(resolve(dsn), autocommit=True))
        if other_log is None:  # else the server says which of the two is missing
            stack.enter_context(naming_the_way_out(queue_name))
        try:
            yield ShareGroup(connection, queue_name, group_name)
        except GroupNotFoundError as error:
            raise GroupNotFoundError(
                f"log {queue_name!r} has no share group {group_name!r}; create it with "
                f"`pgsluice group create {queue_name} {group_name}`",
                sqlstate=error.sqlstate,
            ) from error
