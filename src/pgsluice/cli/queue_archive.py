"""`pgsluice queue drop-export` and `replay`: exports and replay of archives."""

from __future__ import annotations

import sys
from typing import Any

import click

from pgsluice.cli.clients import STEP, QueueClients, queue_clients
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import (
    accepted_yes_option,
    confirm,
    dsn_option,
    json_lines_option,
    json_option,
    name_argument,
    yes_option,
)
from pgsluice.cli.output import interruptible, print_lines, print_result, progress, report
from pgsluice.cli.parsing import filter_options, read_filter
from pgsluice.cli.printing import echo
from pgsluice.client import Archive, ReplayStep
from pgsluice.client.sentences import counted


@click.command()
@name_argument
@click.argument("export_name", metavar="EXPORT")
@yes_option
@json_lines_option
@dsn_option
def drop_export(queue_name: str, export_name: str, yes: bool, dsn: str | None) -> None:
    """Drop an export; the archive no longer keeps messages for it. The lake is not changed.

    `pgsluice pipeline run archive` creates an export, copies messages to the lake, and verifies them: it reads them
    back and compares them. Until then the archive keeps them, regardless of its retention. Exits with 1 if the export
    does not exist.
    """
    confirm(
        yes,
        f"Drop export {export_name!r}? The archive may then delete messages that are not in the lake.",
    )
    with queue_clients(dsn) as clients:
        if not clients.archive.drop_export(queue_name, export_name):
            echo(
                f"queue {queue_name!r} has no export {export_name!r}; see: pgsluice queue show {queue_name}",
                err=True,
            )
            sys.exit(EXIT_DIFFERENCE)


@click.command()
@name_argument
@click.argument("ids", metavar="[ID]...", type=int, nargs=-1)
@click.option("--into", "target", metavar="QUEUE", help="Destination queue.  [default: QUEUE]")
@click.option("--all", "everything", is_flag=True, help="Replay all archived messages.")
@click.option(
    "--continue",
    "replay_id",
    type=click.IntRange(1),
    metavar="REPLAY_ID",
    help="Resume an interrupted replay, whose filter and destination are stored; see `queue show`.",
)
@accepted_yes_option
@filter_options("archived")
@json_option
@dsn_option
def replay(
    queue_name: str,
    ids: tuple[int, ...],
    target: str | None,
    everything: bool,
    replay_id: int | None,
    as_json: bool,
    dsn: str | None,
    **given: Any,
) -> None:
    """Replay archived messages, by msg_id, by filter, or all.

    Sends each as a new message, with its origin in the header x-pgmq-replayed-from. With ids, prints the old and new
    ids, and exits with 1 if one was not found. With a filter, works in transactions of 1,000 and prints the number of
    messages; after an interruption, --continue resumes it. To replay dead letters: pgsluice dead-letters redrive.
    """
    matching = read_filter(**given)
    ways = (bool(ids), bool(matching) or everything, replay_id is not None)
    if sum(ways) != 1:
        raise click.UsageError("give one of: ids, a filter or --all, --continue")
    if replay_id is not None and target is not None:
        raise click.UsageError("--continue and --into are mutually exclusive")
    with queue_clients(dsn) as clients:
        if ids:
            _send_ids(clients.archive, queue_name, ids, target)
        else:
            _replay(clients, queue_name, target, matching, replay_id, as_json)


def _send_ids(archive: Archive, queue_name: str, ids: tuple[int, ...], target: str | None) -> None:
    replayed = archive.replay(queue_name, ids, target_queue_name=target)
    print_lines(replayed)
    report(ids, (pair.archived_msg_id for pair in replayed), "the archive")


def _replay(
    clients: QueueClients,
    queue_name: str,
    target: str | None,
    matching: dict[str, Any],
    replay_id: int | None,
    as_json: bool,
) -> None:
    for known in clients.archive.list_replays() if replay_id else ():
        if known.replay_id == replay_id and known.queue_name.lower() != queue_name.lower():
            raise click.UsageError(f"replay {replay_id} belongs to queue {known.queue_name!r}")
    number = replay_id or clients.archive.start_replay(
        queue_name, target_queue_name=target, **matching
    )
    # The remainder of an interrupted replay is unknown.
    total = None if replay_id else clients.work.count_messages
    step = ReplayStep(0, 0, finished=False)
    with (
        interruptible(
            lambda: (
                f"replayed {counted(step.replayed_in_all, 'message')}; continue with: "
                f"pgsluice queue replay {queue_name} --continue {number}"
            )
        ),
        progress("replayed", lambda: total and total(queue_name, "archive", **matching)) as advance,
    ):
        while not step.finished:
            step = clients.archive.continue_replay(number, qty=STEP)
            advance(step.replayed)
    print_result(
        {"replay_id": number, "replayed": step.replayed_in_all},
        f"{counted(step.replayed_in_all, 'message')} replayed",
        as_json,
    )
