"""What the commands of `pgsluice group` share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import click

from pgsluice.cli.log_shared import naming_the_way_out
from pgsluice.client import ShareGroup
from pgsluice.connection import connect, resolve
from pgsluice.errors import GroupNotFoundError

group_argument = click.argument("group_name", metavar="GROUP")


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
