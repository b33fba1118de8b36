"""`pgsluice queue topics`: bind queues to routing keys, and send to them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click

from pgsluice.cli.clients import check_queue_exists, send_texts, work_queue
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import (
    accepted_yes_option,
    dsn_option,
    json_lines_option,
    json_option,
    name_argument,
    optional_name_argument,
)
from pgsluice.cli.output import print_lines, show
from pgsluice.cli.parsing import lines
from pgsluice.cli.printing import echo
from pgsluice.cli.types import Duration, Json

_pattern = click.argument("pattern")
_key = click.argument("routing_key", metavar="ROUTING_KEY")


@click.group()
def topics() -> None:
    """Bind queues to routing keys, and send to all bound queues.

    A message has a routing key such as orders.eu.new. A binding has a pattern of words separated by dots: `*` matches
    one word, `#` any number of words, so orders.# matches the key above.
    """


@topics.command()
@_pattern
@name_argument
@json_lines_option
@dsn_option
def bind(pattern: str, queue_name: str, dsn: str | None) -> None:
    """Bind a queue to a pattern of routing keys; idempotent."""
    with work_queue(dsn) as work:
        work.bind_topic(pattern, queue_name)


@topics.command()
@_pattern
@name_argument
@accepted_yes_option
@json_lines_option
@dsn_option
def unbind(pattern: str, queue_name: str, dsn: str | None) -> None:
    """Remove a binding. Exits with 1 if it does not exist."""
    with work_queue(dsn) as work:
        if not work.unbind_topic(pattern, queue_name):
            echo(f"queue {queue_name!r} is not bound to {pattern!r}", err=True)
            sys.exit(EXIT_DIFFERENCE)


@topics.command("list")
@optional_name_argument
@click.option(
    "--matching",
    "routing_key",
    metavar="ROUTING_KEY",
    help="Only bindings that match this routing key; exit with 1 if there are none.",
)
@json_option
@dsn_option
def list_(queue_name: str | None, routing_key: str | None, as_json: bool, dsn: str | None) -> None:
    """List the bindings of one queue or all, newest first."""
    with work_queue(dsn) as work:
        found = work.list_topic_bindings(queue_name)
        if queue_name is not None and not found:
            check_queue_exists(work, queue_name)
        if routing_key is not None:
            matches = {
                (match.pattern, match.queue_name) for match in work.test_routing(routing_key)
            }
            found = [each for each in found if (each.pattern, each.queue_name) in matches]
    show(found, as_json, empty="no bindings")
    if routing_key is not None and not found:
        sys.exit(EXIT_DIFFERENCE)


@topics.command()
@_key
@click.argument("messages", metavar="[JSON]...", nargs=-1)
@click.option(
    "--headers", type=Json(is_object=True), help="Headers of each message, a JSON object."
)
@click.option(
    "--delay",
    type=Duration(is_whole=True),
    default="0s",
    show_default=True,
    help="Time until the messages become visible.",
)
@json_lines_option
@dsn_option
def send(
    routing_key: str,
    messages: tuple[str, ...],
    headers: dict[str, Any] | None,
    delay: int,
    dsn: str | None,
) -> None:
    """Send messages to each queue with a matching binding, and print their ids by queue.

    Messages are arguments, or JSON lines on standard input. Lines are sent in transactions of 1,000. Exits with 1 if no
    queue is bound.
    """
    texts: Iterable[str] = messages or lines(sys.stdin)
    unbound = False
    with work_queue(dsn) as work:

        def send(values: list[Any]) -> dict[str, list[int]]:
            return work.send_batch_topic(
                routing_key, values, headers=[headers] * len(values), delay=delay
            )

        for ids in send_texts(texts, send):
            unbound = unbound or not ids
            print_lines(
                {"queue_name": name, "msg_id": msg_id}
                for name, msg_ids in ids.items()
                for msg_id in msg_ids
            )
    if unbound:
        echo(f"no queue is bound to {routing_key!r}", err=True)
        sys.exit(EXIT_DIFFERENCE)
