"""Clients for commands: each call is a transaction, and errors name the missing object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from psycopg import Connection
from psycopg_pool import ConnectionPool

from pgsluice import schema
from pgsluice.cli.parsing import json_value
from pgsluice.client import (
    Archive,
    EventLog,
    Operations,
    QueueInfo,
    Schedules,
    ShareGroup,
    TableQueue,
    WorkQueue,
)
from pgsluice.connection import Target, connect, resolve, session_options
from pgsluice.errors import (
    LogNotFoundError,
    NotInstalledError,
    PayloadError,
    QueueNotFoundError,
)
from pgsluice.sessions import SluiceConnection

Sent = TypeVar("Sent")

# Messages per transaction.
STEP = 1_000


def one_connection(target: Target) -> ConnectionPool[Any]:
    """Open a pool of one connection, for commands that run until stopped."""
    return ConnectionPool[Any](
        target.conninfo,
        connection_class=SluiceConnection,
        min_size=1,
        max_size=1,
        kwargs=session_options(target.conninfo),
        open=True,
    )


def pages(
    browse: Callable[..., Sequence[Any]],
    id_name: str,
    after_id: int | None,
    qty: int | None,
    matching: dict[str, Any],
) -> Iterator[Sequence[Any]]:
    """Read records in pages of 1,000, in ascending order of id.

    Args:
        browse: Method of the client.
        id_name: Name of a record's id.
        after_id: Only records with a higher id; None: all.
        qty: Maximum number of records; None: all.
        matching: Filter.
    """
    while qty is None or qty > 0:
        requested = STEP if qty is None else min(qty, STEP)
        page = browse(**{f"after_{id_name}": after_id}, qty=requested, **matching)
        yield page
        if len(page) < requested:
            return
        after_id = getattr(page[-1], id_name)
        qty = None if qty is None else qty - len(page)


def send_texts(texts: Iterable[str], send: Callable[[list[Any]], Sent]) -> Iterator[Sent]:
    """Send JSON texts in batches of 1,000; yield the result of each `send`.

    Raises:
        PayloadError: A text is not JSON. The error has the number of messages already sent.
    """
    sent = 0
    numbered = enumerate(texts, 1)
    while batch := list(islice(numbered, STEP)):
        try:
            returned = send([json_value(text, f"message {number}") for number, text in batch])
        except PayloadError as error:
            raise PayloadError(f"{error}; messages already sent: {sent}") from error
        sent += len(batch)
        yield returned


@contextmanager
def _naming_missing_functions(connection: Connection[Any]) -> Iterator[None]:
    """Say in the error for a missing function that only the tables are installed, if that is so."""
    try:
        yield
    except NotInstalledError as error:
        if connection.closed or not connection.autocommit or not _has_tables_only(connection):
            raise
        raise NotInstalledError(schema.ONLY_TABLES, sqlstate=error.sqlstate) from error


def _has_tables_only(connection: Connection[Any]) -> bool:
    return schema.has_tables_only(schema.installed_versions(connection))


def list_queues(connection: Connection[Any]) -> list[QueueInfo]:
    """Return all queues by name, also where only the tables are installed."""
    if _has_tables_only(connection):
        return TableQueue(connection).list_queues()
    return WorkQueue(connection).list_queues()


@contextmanager
def open_connection(dsn: str | Target | None) -> Iterator[Connection[Any]]:
    """Open a connection in autocommit mode; an error for a missing function says if only the tables are installed."""
    with (
        connect(dsn if isinstance(dsn, Target) else resolve(dsn), autocommit=True) as connection,
        _naming_missing_functions(connection),
    ):
        yield connection


@dataclass(frozen=True)
class QueueClients:
    """The clients of queues on one connection."""

    work: WorkQueue
    archive: Archive
    operations: Operations


@contextmanager
def queue_clients(dsn: str | None) -> Iterator[QueueClients]:
    """Open clients in autocommit mode."""
    with open_connection(dsn) as connection:
        yield QueueClients(WorkQueue(connection), Archive(connection), Operations(connection))


@contextmanager
def work_queue(dsn: str | None) -> Iterator[WorkQueue]:
    """Open a client as `queue_clients` does."""
    with queue_clients(dsn) as clients:
        yield clients.work


def queue_exists(work: WorkQueue, queue_name: str) -> bool:
    """True if a queue exists; names are case-insensitive."""
    return any(known.queue_name.lower() == queue_name.lower() for known in work.list_queues())


def check_queue_exists(work: WorkQueue, queue_name: str) -> None:
    """Raise QueueNotFoundError if a queue does not exist; for results that are empty."""
    if not queue_exists(work, queue_name):
        raise QueueNotFoundError(names=(queue_name,))


def check_log_exists(events: EventLog, log_name: str) -> None:
    """Raise LogNotFoundError if a log does not exist; for results that are empty."""
    if not events.get_queue_info(log_name):
        raise LogNotFoundError(names=(log_name,))


@contextmanager
def event_log(dsn: str | None) -> Iterator[EventLog]:
    """Open a client in autocommit mode."""
    with open_connection(dsn) as connection:
        yield EventLog(connection)


@contextmanager
def share_group(dsn: str | None, log_name: str, group_name: str) -> Iterator[ShareGroup]:
    """Open a client in autocommit mode."""
    with open_connection(dsn) as connection:
        yield ShareGroup(connection, log_name, group_name)


@contextmanager
def open_schedules(dsn: str | None) -> Iterator[Schedules]:
    """Open a client in autocommit mode."""
    with open_connection(dsn) as connection:
        yield Schedules(connection)
