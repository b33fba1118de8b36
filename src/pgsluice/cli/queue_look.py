"""`pgsluice queue browse` and `failing`: inspect messages without claiming them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import click

from pgsluice.cli.clients import QueueClients, pages, queue_clients
from pgsluice.cli.options import (
    dsn_option,
    json_lines_option,
    json_option,
    name_argument,
    optional_name_argument,
)
from pgsluice.cli.output import print_lines, report, show
from pgsluice.cli.parsing import filter_options, matching_option, read_filter
from pgsluice.cli.printing import echo
from pgsluice.client import Operations
from pgsluice.errors import NotInstalledError

_RELATIONS = ("queue", "archive", "dead-letters", "all")


class _MessageId(click.types.IntParamType):
    """A msg_id; the name of a relation belongs to `--in`."""

    def convert(
        self, value: Any, param: click.Parameter | None, context: click.Context | None
    ) -> Any:
        if value in _RELATIONS:
            self.fail(f"{value!r} is not a msg_id; use --in {value}", param, context)
        return super().convert(value, param, context)


@click.command()
@optional_name_argument
@json_option
@dsn_option
def failing(queue_name: str | None, as_json: bool, dsn: str | None) -> None:
    """List failed messages that are still retried, of one queue or all, grouped by error, most frequent first.

    Numbers and UUIDs in errors are replaced by #. `queue browse` prints the error and traceback of the example, and
    `dead-letters list` the messages that are no longer retried.
    """
    with queue_clients(dsn) as clients:
        show(clients.operations.list_failing(queue_name), as_json, empty="no failing messages")


@click.command()
@name_argument
@click.argument("msg_ids", metavar="[MSG_ID]...", type=_MessageId(), nargs=-1)
@click.option(
    "--in",
    "relation",
    type=click.Choice(_RELATIONS),
    help="The queue, its archive, its dead letters, or all of them.  [default: queue; ids are looked for in all]",
)
@click.option(
    "--after",
    "after_id",
    type=int,
    metavar="ID",
    help="Only messages with a higher msg_id.",
)
@click.option("--qty", type=click.IntRange(1), help="Maximum number of messages.  [default: all]")
@click.option(
    "--count", "count_only", is_flag=True, help="Print the number only; scans the whole table."
)
@filter_options("sent (in the archive: archived)")
@matching_option
@json_lines_option
@dsn_option
def browse(
    queue_name: str,
    msg_ids: tuple[int, ...],
    relation: str | None,
    after_id: int | None,
    qty: int | None,
    count_only: bool,
    dsn: str | None,
    **given: Any,
) -> None:
    """Print messages of a queue, by filter or by msg_id, without reading them.

    Prints in order of id. Reads page by page; to continue later, pass the last id to --after. Ids are looked for in the
    queue, its archive and its dead letters; exits with 1 if one was not found.

    The field state is one of: visible, in flight, retrying, delayed, archived, dead. A message given by id that failed,
    also while it waits for its retry, has the fields attempts, first_failed_at, last_failed_at, next_retry_at,
    error_type, error, trace and worker.
    """
    matching = read_filter(**given)
    relation = relation and relation.replace("-", " ")
    is_page = after_id is not None or qty is not None
    if msg_ids and (matching or relation or count_only or is_page):
        raise click.UsageError("ids and a filter are mutually exclusive")
    if count_only and is_page:
        raise click.UsageError("--count and --after or --qty are mutually exclusive")
    with queue_clients(dsn) as clients:
        if msg_ids:
            _print_ids(clients, queue_name, msg_ids)
        elif count_only:
            echo(clients.work.count_messages(queue_name, relation or "queue", **matching))
        else:
            method = partial(clients.work.browse, queue_name, relation or "queue")
            for page in pages(method, "msg_id", after_id, qty, matching):
                print_lines(page)


def _print_ids(clients: QueueClients, queue_name: str, msg_ids: Sequence[int]) -> None:
    found = clients.work.get_messages(queue_name, msg_ids)
    attempts = _attempts(clients.operations, queue_name, msg_ids)
    print_lines(
        asdict(message) | (attempts.get(message.msg_id, {}) if message.state != "archived" else {})
        for message in found
    )
    report(msg_ids, (message.msg_id for message in found), "the queue, archive or dead letters")


def _attempts(
    operations: Operations, queue_name: str, msg_ids: Sequence[int]
) -> dict[int, dict[str, Any]]:
    """Return the records of attempts by msg_id; none if an older release is installed."""
    try:
        found = map(asdict, operations.list_attempts(queue_name, msg_ids))
    except NotInstalledError:
        return {}
    return {
        fields["msg_id"]: {name: value for name, value in fields.items() if name != "state"}
        for fields in found
    }
