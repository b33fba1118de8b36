"""`pgsluice queue streams`: streams of Spark that claim messages of queues."""

from __future__ import annotations

import sys

import click

from pgsluice.cli.clients import queue_clients
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import dsn_option, json_option
from pgsluice.cli.output import print_result, show
from pgsluice.cli.printing import echo


@click.group()
def streams() -> None:
    """Manage the Spark streams that read queues."""


@streams.command("list")
@json_option
@dsn_option
def list_(as_json: bool, dsn: str | None) -> None:
    """List streams by name; claimed_messages counts unacknowledged messages."""
    with queue_clients(dsn) as clients:
        show(clients.operations.list_queue_streams(), as_json, empty="no streams")


@streams.command()
@click.argument("stream_name", metavar="STREAM")
@json_option
@dsn_option
def release(stream_name: str, as_json: bool, dsn: str | None) -> None:
    """Release the claims of a stream that will not resume. Exits with 1 if it does not exist.

    Stop its query first. The messages become visible again; those that the stream has already written are delivered
    twice.
    """
    with queue_clients(dsn) as clients:
        released = clients.operations.release_claims(stream_name)
    if released is None:
        echo(f"stream {stream_name!r} does not exist", err=True)
        sys.exit(EXIT_DIFFERENCE)
    print_result({"released": released}, f"{released} messages released", as_json)
