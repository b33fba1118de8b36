"""`pgsluice queue topics`: which queues get the messages of a routing key."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click

from pgsluice.cli.clients import send_texts, work_queue
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import dsn_option, json_lines_option, json_option, name_argument
from pgsluice.cli.output import print_lines, show
from pgsluice.cli.parsing import json_object, lines

_pattern = click.argument("pattern")
_key = click.argument("routing_key", metavar="KEY")


@click.group()
def topics() -> None:
    """Bind queues to topics, and send to all that are bound.

    A pattern is words joined by dots; `*` stands for one word, `#` for any number of them.
    """


@topics.command()
@_pattern
@name_argument
@json_lines_option
@dsn_option
def bind(pattern: str, queue_name: str, dsn: str | None) -> None:
    """Let a queue get the messages whose key matches a pattern; twice does no harm."""
    with work_queue(dsn, queue_name) as work:
        work.bind_topic(pattern, queue_name)


@topics.command()
@_pattern
@name_argument
@json_lines_option
@dsn_option
def unbind(pattern: str, queue_name: str, dsn: str | None) -> None:
    """Take a binding away; exits 1 when there is none."""
    with work_queue(dsn, queue_name) as work:
        if not work.unbind_topic(pattern, queue_name):
            click.echo(f"queue {queue_name!r} is not bound to {pattern!r}", err=True)
            sys.exit(EXIT_DIFFERENCE)


@topics.command("list")
@click.argument("queue_name", metavar="[QUEUE]", required=False)
@json_option
@dsn_option
def list_(queue_name: str | None, as_json: bool, dsn: str | None) -> None:
    """Show the bindings of one queue, or of all, the latest first."""
    with work_queue(dsn, queue_name) as work:
        show(work.list_topic_bindings(queue_name), as_json, empty="no bindings")


@topics.command()
@_key
@json_option
@dsn_option
def test(routing_key: str, as_json: bool, dsn: str | None) -> None:
    """Show which bindings a key matches, and send nothing; exits 1 when there is none."""
    with work_queue(dsn) as work:
        matches = work.test_routing(routing_key)
    show(matches, as_json, empty="no bindings")
    if not matches:
        sys.exit(EXIT_DIFFERENCE)


@topics.command()
@_key
@click.argument("messages", metavar="[JSON]...", nargs=-1)
@click.option("--headers", metavar="JSON", help="A JSON object that goes with each message.")
@click.option(
    "--delay", type=click.IntRange(0), default=0, show_default=True, help="Seconds until visible."
)
@json_lines_option
@dsn_option
def send(
    routing_key: str, messages: tuple[str, ...], headers: str | None, delay: int, dsn: str | None
) -> None:
    """Send messages, arguments or lines on standard input, to each queue that is bound; prints their ids by queue.

    Lines are sent by the thousand, each thousand in a transaction of its own. Exits 1 when no queue is bound.
    """
    texts: Iterable[str] = messages or lines(sys.stdin)
    extra = json_object(headers, "--headers")
    unbound = False
    with work_queue(dsn) as work:

        def send(values: list[Any]) -> dict[str, list[int]]:
            headers = [extra] * len(values)
            return work.send_batch_topic(routing_key, values, headers=headers, delay=delay)

        for ids in send_texts(texts, send):
            unbound = unbound or not ids
            print_lines(
                {"queue_name": name, "msg_id": msg_id}
                for name, msg_ids in ids.items()
                for msg_id in msg_ids
            )
    if unbound:
        click.echo(f"no queue is bound to {routing_key!r}", err=True)
        sys.exit(EXIT_DIFFERENCE)
