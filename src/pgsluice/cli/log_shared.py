"""What the commands of `pgsluice log` share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from pgsluice.client import EventLog
from pgsluice.connection import connect, resolve
from pgsluice.errors import LogNotFoundError

log_argument = click.argument("queue_name", metavar="LOG")
optional_log_argument = click.argument("queue_name", metavar="[LOG]", required=False)


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
