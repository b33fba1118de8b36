"""`pgsluice queue retention`, `exports`, `replay`, `replays`: how long archives are kept, sending again from them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from pgsluice.cli.clients import STEP, work_queue
from pgsluice.cli.dead_letters import letters_of_queue, redrive_ids, redrive_matching
from pgsluice.cli.options import dsn_option, json_option, name_argument
from pgsluice.cli.output import interruptible, print_lines, progress, report, say, show
from pgsluice.cli.parsing import FOR_EVER, duration, filter_options, read_filter
from pgsluice.client import ReplayStep, WorkQueue
from pgsluice.errors import ExportError, QueueNotFoundError


@click.command()
@click.argument("queue_name", metavar="[QUEUE]", required=False)
@click.argument("keep", metavar="[DURATION]", type=duration, required=False)
@json_option
@dsn_option
def retention(
    queue_name: str | None, keep: timedelta | str | None, as_json: bool, dsn: str | None
) -> None:
    """Show how long archived messages are kept, by queue, or set it for one: 90s, 15m, 12h, 30d, 4w, forever.

    They are kept for ever until it is set. Maintenance deletes what is older, in steps.
    """
    with work_queue(dsn, queue_name) as work:
        if keep is not None and queue_name is not None:
            work.set_retention(queue_name, keep if isinstance(keep, timedelta) else None)
        kept = [
            record
            for record in work.list_retentions()
            if queue_name is None or record.queue_name.lower() == queue_name.lower()
        ]
    if queue_name is not None and not kept:
        raise QueueNotFoundError(
            f"queue {queue_name!r} does not exist; create it with `pgsluice queue create {queue_name}`"
        )
    if as_json:
        rows: list[dict[str, Any]] = [
            {
                "queue_name": record.queue_name,
                "archive_retention_s": record.archive_retention
                and record.archive_retention.total_seconds(),
            }
            for record in kept
        ]
    else:
        rows = [
            {
                "queue_name": record.queue_name,
                "archive_retention": FOR_EVER
                if record.archive_retention is None
                else str(record.archive_retention),
            }
            for record in kept
        ]
    show(rows, as_json, empty="no queues")


@click.command()
@click.argument("queue_name", metavar="[QUEUE]", required=False)
@click.option(
    "--drop", metavar="NAME", help="Keep archived messages of QUEUE no longer for this one."
)
@json_option
@dsn_option
def exports(queue_name: str | None, drop: str | None, as_json: bool, dsn: str | None) -> None:
    """Show the tables of a lake that archives are copied into, and keep messages no longer for one.

    An archive keeps what an export of its queue has not verified, whatever its retention. kept: how many verified
    messages it holds still. `pgsluice pipeline run archive` makes exports.
    """
    if drop is not None and queue_name is None:
        raise click.UsageError("--drop needs the QUEUE")
    with work_queue(dsn, queue_name) as work:
        if drop is not None and queue_name is not None and not work.drop_export(queue_name, drop):
            raise ExportError(
                f"queue {queue_name!r} has no export {drop!r}; look at `pgsluice queue exports {queue_name}`"
            )
        found = [
            record
            for record in work.list_exports()
            if queue_name is None or record.queue_name.lower() == queue_name.lower()
        ]
    show(found, as_json, empty="no exports")


@click.command()
@name_argument
@click.argument("ids", metavar="[ID]...", type=int, nargs=-1)
@click.option("--into", "target", metavar="QUEUE", help="Where to send them.  [default: the same]")
@click.option("--dead", is_flag=True, help="Move dead letters back, instead of the archive.")
@click.option("--all", "everything", is_flag=True, help="All there are by now.")
@click.option(
    "--continue",
    "replay_id",
    type=click.IntRange(1),
    metavar="REPLAY_ID",
    help="Go on with a replay that was interrupted.",
)
@filter_options
@json_option
@dsn_option
def replay(
    queue_name: str,
    ids: tuple[int, ...],
    target: str | None,
    dead: bool,
    everything: bool,
    replay_id: int | None,
    as_json: bool,
    dsn: str | None,
    **given: Any,
) -> None:
    """Send archived messages again, or move dead letters back: those with these ids, or those that a filter matches.

    IDs are msg_ids of the archive, with --dead dead_letter_ids. They become new messages, whose headers say in
    x-pgmq-replayed-from where they were. With ids it prints the old and the new ones, and exits 1 when one was not
    there. With a filter it works in transactions of a thousand, and prints how many; interrupted, it says how to go on.
    """
    matching = read_filter(**given)
    ways = (bool(ids), bool(matching) or everything, replay_id is not None)
    if sum(ways) != 1 or (replay_id is not None and (dead or target is not None)):
        raise click.UsageError(
            "say what to send: ids, a filter or --all, or --continue; and one of these only"
        )
    with work_queue(dsn, queue_name) as work:
        if ids:
            _send_ids(work, queue_name, ids, target, dead)
        elif dead:
            redrive_matching(
                letters_of_queue(work, queue_name), target, None, matching, as_json=as_json
            )
        else:
            _replay(work, queue_name, target, matching, replay_id, as_json)


@click.command()
@json_option
@dsn_option
def replays(as_json: bool, dsn: str | None) -> None:
    """Show replays under way and finished, the earliest first, and how many messages each has sent."""
    with work_queue(dsn) as work:
        show(work.list_replays(), as_json, empty="no replays")


def _send_ids(
    work: WorkQueue, queue_name: str, ids: tuple[int, ...], target: str | None, dead: bool
) -> None:
    if dead:
        redrive_ids(letters_of_queue(work, queue_name), ids, target)
        return
    replayed = work.replay(queue_name, ids, target_queue_name=target)
    print_lines(replayed)
    report(ids, (pair.archived_msg_id for pair in replayed), "the archive")


def _replay(
    work: WorkQueue,
    queue_name: str,
    target: str | None,
    matching: dict[str, Any],
    replay_id: int | None,
    as_json: bool,
) -> None:
    for known in work.list_replays() if replay_id else ():
        if known.replay_id == replay_id and known.queue_name.lower() != queue_name.lower():
            raise click.UsageError(f"replay {replay_id} is one of queue {known.queue_name!r}")
    number = replay_id or work.start_replay(queue_name, target_queue_name=target, **matching)
    # What is left of one that was interrupted is not known.
    total = None if replay_id else work.count_messages
    step = ReplayStep(0, 0, finished=False)
    with (
        interruptible(
            lambda: (
                f"sent {step.replayed_in_all}; go on with "
                f"`pgsluice queue replay {queue_name} --continue {number}`"
            )
        ),
        progress("sent", lambda: total and total(queue_name, "archive", **matching)) as advance,
    ):
        while not step.finished:
            step = work.continue_replay(number, qty=STEP)
            advance(step.replayed)
    say(
        {"replay_id": number, "replayed": step.replayed_in_all},
        f"{step.replayed_in_all} messages sent again",
        as_json,
    )
