"""`pgsluice queue blocked` and `unpark`: keys of queues whose messages are blocked."""

from __future__ import annotations

import sys

import click

from pgsluice.cli.clients import queue_clients
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import FreeText, dsn_option, json_lines_option, json_option, name_argument
from pgsluice.cli.output import show
from pgsluice.cli.printing import echo


@click.command()
@name_argument
@json_option
@dsn_option
def blocked(queue_name: str, as_json: bool, dsn: str | None) -> None:
    """List keys whose messages are blocked by a limit or an earlier message, longest wait first."""
    with queue_clients(dsn, queue_name) as clients:
        show(clients.operations.list_blocked_messages(queue_name), as_json, empty="no blocked keys")


@click.command()
@name_argument
@click.argument("key", type=FreeText())
@json_lines_option
@dsn_option
def unpark(queue_name: str, key: str, dsn: str | None) -> None:
    """Unpark a key that a failed message parked; its messages are read again in order.

    Exits with 1 if the key is not parked.
    """
    with queue_clients(dsn, queue_name) as clients:
        if not clients.operations.unpark_messages(queue_name, key):
            echo(f"key {key!r} of queue {queue_name!r} is not parked", err=True)
            sys.exit(EXIT_DIFFERENCE)
