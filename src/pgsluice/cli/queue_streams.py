"""`pgsluice queue streams`: who reads queues as streams, and what is left of those that were given up."""

from __future__ import annotations

import sys

import click

from pgsluice.cli.clients import work_queue
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import dsn_option, json_option
from pgsluice.cli.output import say, show


@click.command()
@click.option("--release", "stream_name", metavar="NAME", help="Give this stream up.")
@json_option
@dsn_option
def streams(stream_name: str | None, as_json: bool, dsn: str | None) -> None:
    """Show the streams that read queues with Spark, by name, or give one up.

    claimed_messages: how many it holds, as it has not said that they are stored. Nobody else gets them until it is
    given up: then they are visible again, and those that it has stored come twice. End its query first. --release
    prints how many, and exits 1 when there is no such stream.
    """
    with work_queue(dsn) as work:
        if stream_name is None:
            show(work.list_queue_streams(), as_json, empty="no streams")
            return
        released = work.release_claims(stream_name)
    if released is None:
        click.echo(f"no stream is called {stream_name!r}", err=True)
        sys.exit(EXIT_DIFFERENCE)
    say({"released": released}, f"{released} messages are visible again", as_json)
