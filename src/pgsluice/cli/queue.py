"""`pgsluice queue`: manage work queues, with JSON lines as input and output."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import Any

import click
from psycopg import Connection

from pgsluice.cli.clients import (
    list_queues,
    open_connection,
    queue_clients,
    send_texts,
    work_queue,
)
from pgsluice.cli.each_shard import errors_of, exit_if_down, of_each
from pgsluice.cli.main import EXIT_DIFFERENCE
from pgsluice.cli.options import (
    FreeText,
    accepted_yes_option,
    confirm,
    dsn_option,
    dsn_or_shards_option,
    json_lines_option,
    json_option,
    name_argument,
    optional_name_argument,
    yes_option,
)
from pgsluice.cli.output import print_lines, print_result, report, show
from pgsluice.cli.parsing import lines
from pgsluice.cli.printing import echo, echo_lines
from pgsluice.cli.queue_archive import drop_export, replay
from pgsluice.cli.queue_look import browse, failing
from pgsluice.cli.queue_partitions import partition_arguments, partition_options
from pgsluice.cli.queue_settings import paused_queues, set_, show_
from pgsluice.cli.queue_tail import tail
from pgsluice.cli.queue_topics import topics
from pgsluice.cli.types import Duration, Json
from pgsluice.client import Operations, QueueMetrics, WorkQueue
from pgsluice.client.headers import message_headers
from pgsluice.client.sentences import counted
from pgsluice.connection import Target, resolve
from pgsluice.errors import NotInstalledError, PrivilegeError, QueueNotFoundError, SluiceError
from pgsluice.shards import Shards

_vt = click.option(
    "--vt",
    type=Duration(is_whole=True),
    default="30s",
    show_default=True,
    help="Visibility timeout, in whole seconds.",
)
_qty = click.option(
    "--qty",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Maximum number of messages.",
)
_METRICS = (
    "queue_length",
    "queue_visible_length",
    "oldest_msg_age_sec",
    "newest_msg_age_sec",
    "total_messages",
    "default_partition_length",
    "scrape_time",
)
_PAUSE = ("paused_at", "paused_by", "pause_reason")
_SHOWN = ("queue_name", *_METRICS[:-1], *_PAUSE)


@click.group()
def queue() -> None:
    """Manage work queues and their messages.

    A visible message can be read. A read makes it invisible for a visibility timeout; then it is visible again, unless
    it was deleted or archived. The archive keeps its messages for a retention. A dead letter is a message that workers
    gave up. The key of a message is its header x-pgmq-group.

    Messages are read and written as JSON lines.
    """


@queue.command()
@name_argument
@click.option(
    "--archive-retention",
    "archive_retention_s",
    type=Duration(may_be_forever=True),
    default="7d",
    show_default=True,
    help="Maintenance deletes archived messages that are older. Of a queue that exists the option is kept. Partitioned "
    "queues have --retention instead.",
)
@partition_options
@json_lines_option
@dsn_option
def create(queue_name: str, dsn: str | None, archive_retention_s: float, **options: Any) -> None:
    """Create a queue; idempotent. If it exists and is partitioned, apply the partition options.

    A name has 1 to 47 bytes; letters, digits and underscores are always allowed. Names that differ only in case share a
    table, so only one can exist.
    """
    partitioning = partition_arguments(**options)
    with work_queue(dsn) as work:
        if partitioning is None:
            is_forever = archive_retention_s == math.inf
            kept = None if is_forever else timedelta(seconds=archive_retention_s)
            work.create(queue_name, archive_retention=kept)
        else:
            work.create_partitioned(queue_name, *partitioning)


@queue.command("list")
@optional_name_argument
@json_option
@dsn_or_shards_option
def list_(queue_name: str | None, as_json: bool, dsn: str | None, shards: Shards | None) -> None:
    """List one queue or all by name, with lengths, message ages (seconds), and who paused them.

    queue_length counts all messages, queue_visible_length those that can be read now, total_messages all that were ever
    sent. default_partition_length counts messages outside the partitions of a partitioned queue. Lengths above 5,000
    are estimates. --json prints all fields. With --shards and without --shard, those of each shard.
    """
    read = partial(_rows, queue_name=queue_name, as_json=as_json)
    if shards is None:
        found: list[tuple[str, list[dict[str, Any]] | SluiceError]] = [("", read(resolve(dsn)))]
    else:
        found = of_each(shards, read)
    rows = [
        ({"shard": name} if name else {}) | row
        for name, one in found
        if not isinstance(one, SluiceError)
        for row in one
    ]
    errors = errors_of(found)
    is_missing = all(isinstance(error, QueueNotFoundError) for _, error in errors)
    if queue_name is not None and not rows and is_missing:
        raise QueueNotFoundError(names=(queue_name,))
    show(rows, as_json, empty="no queues")
    exit_if_down([each for each in errors if not isinstance(each[1], QueueNotFoundError)])


def _rows(target: Target, *, queue_name: str | None, as_json: bool) -> list[dict[str, Any]]:
    with open_connection(target) as connection:
        found = [
            info
            for info in list_queues(connection)
            if queue_name is None or info.queue_name.lower() == queue_name.lower()
        ]
        if queue_name is not None and not found:
            raise QueueNotFoundError(names=(queue_name,))
        work = WorkQueue(connection)
        metrics, paused = _metrics(work, queue_name), paused_queues(work)
    rows = []
    for info in found:
        name = info.queue_name.lower()
        row = asdict(info) | {field: getattr(metrics.get(name), field, None) for field in _METRICS}
        row |= {field: getattr(paused.get(info.queue_name), field, None) for field in _PAUSE}
        rows.append(row if as_json else {field: row[field] for field in _SHOWN})
    return rows


def _metrics(work: WorkQueue, queue_name: str | None) -> dict[str, QueueMetrics]:
    """Return metrics by the name in lower case; none if the role may not read them, or only tables are installed."""
    try:
        found = work.metrics_all() if queue_name is None else [work.metrics(queue_name)]
    except (NotInstalledError, PrivilegeError):
        return {}
    return {metrics.queue_name.lower(): metrics for metrics in found}


@queue.command()
@name_argument
@click.argument("messages", metavar="[JSON]...", nargs=-1)
@click.option(
    "--headers", type=Json(is_object=True), help="Headers of each message, a JSON object."
)
@click.option(
    "--delay",
    type=Duration(is_whole=True),
    default="0s",
    show_default=True,
    help="Time until the messages become visible, in whole seconds.",
)
@click.option(
    "--key", type=FreeText(), help="Ordering key of each message: its header x-pgmq-group."
)
@click.option(
    "--priority",
    type=click.IntRange(1),
    help="Priority of each message, 1 is the most urgent: its header x-pgmq-priority.",
)
@click.option(
    "--deduplication-key",
    type=FreeText(),
    help="Do not store the message, which is a single argument, if it is a duplicate by this key; print the id of the "
    "first message.",
)
@json_lines_option
@dsn_option
def send(
    queue_name: str,
    messages: tuple[str, ...],
    delay: int,
    deduplication_key: str | None,
    dsn: str | None,
    **options: Any,
) -> None:
    """Send messages from arguments or standard input, and print their ids.

    Standard input has one JSON value per line. Lines are sent in transactions of 1,000. The command stops at the first
    line that is not JSON; the error has the number of messages already sent.
    """
    if deduplication_key is not None and len(messages) != 1:
        raise click.UsageError("--deduplication-key needs one message as argument")
    texts: Iterable[str] = messages or lines(sys.stdin)
    headers = message_headers(**options)
    keys = None if deduplication_key is None else [deduplication_key]
    with work_queue(dsn) as work:

        def send(values: list[Any]) -> list[int]:
            return work.send_batch(
                queue_name,
                values,
                headers=[headers] * len(values),
                delay=delay,
                deduplication_keys=keys,
            )

        for ids in send_texts(texts, send):
            echo_lines("\n".join(map(str, ids)))


@queue.command()
@name_argument
@_vt
@_qty
@click.option(
    "--conditional",
    type=Json(),
    help='Only messages that contain this JSON object (@>), such as {"kind": 1}.',
)
@json_lines_option
@dsn_option
def read(queue_name: str, vt: int, qty: int, conditional: Any, dsn: str | None) -> None:
    """Read visible messages and print them in order of msg_id, or nothing if there are none.

    They are invisible for --vt, and are read again after it unless they are deleted or archived. read_ct counts the
    reads.
    """
    with work_queue(dsn) as work:
        print_lines(work.read(queue_name, vt, qty, conditional=conditional))


@queue.command()
@name_argument
@_qty
@accepted_yes_option
@json_lines_option
@dsn_option
def pop(queue_name: str, qty: int, dsn: str | None) -> None:
    """Read and delete visible messages, and print them in order of msg_id. They are not archived."""
    with work_queue(dsn) as work:
        print_lines(work.pop(queue_name, qty))


@queue.command()
@name_argument
@click.argument("msg_ids", metavar="MSG_ID...", type=int, nargs=-1, required=True)
@accepted_yes_option
@json_lines_option
@dsn_option
def archive(queue_name: str, msg_ids: tuple[int, ...], dsn: str | None) -> None:
    """Move messages to the archive and print their ids. Exits with 1 if one was not found."""
    with work_queue(dsn) as work:
        _acknowledged(msg_ids, work.archive_batch(queue_name, msg_ids))


@queue.command()
@name_argument
@click.argument("msg_ids", metavar="[MSG_ID]...", type=int, nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Delete all messages, visible or not.")
@yes_option
@json_lines_option
@dsn_option
def delete(
    queue_name: str, msg_ids: tuple[int, ...], everything: bool, yes: bool, dsn: str | None
) -> None:
    """Delete messages permanently and print their ids, or with --all their number; keeps the archive.

    Exits with 1 if an id was not found. Asks for confirmation before it deletes all.
    """
    if bool(msg_ids) == everything:
        raise click.UsageError("give one of: ids, --all")
    if everything:
        confirm(yes, f"Delete all messages of queue {queue_name!r}?")
    with work_queue(dsn) as work:
        if everything:
            echo(work.purge_queue(queue_name))
        else:
            _acknowledged(msg_ids, work.delete_batch(queue_name, msg_ids))


@queue.command()
@name_argument
@click.argument("msg_ids", metavar="MSG_ID...", type=int, nargs=-1, required=True)
@accepted_yes_option
@json_lines_option
@dsn_option
def cancel(queue_name: str, msg_ids: tuple[int, ...], dsn: str | None) -> None:
    """Cancel messages, running or not, and print their ids. Exits with 1 if one was not found.

    They are neither archived nor dead-lettered. A message that no worker has claimed does not run. The worker that runs
    one notices within half of its lease: it cancels an `async def`, kills a process, and sets context.lost in a thread;
    a transaction of the handler cannot commit any more.
    """
    with open_connection(dsn) as connection:
        with connection.transaction():
            found = WorkQueue(connection).delete_batch(queue_name, msg_ids)
            _record(connection, "delete", queue_name, found)
        _acknowledged(msg_ids, found)


@queue.command()
@name_argument
@yes_option
@json_lines_option
@dsn_option
def drop(queue_name: str, yes: bool, dsn: str | None) -> None:
    """Drop a queue with its messages and archive; its dead letters are kept. Exits with 1 if it does not exist."""
    confirm(yes, f"Drop queue {queue_name!r} with its messages and archive?")
    with work_queue(dsn) as work:
        if not work.drop_queue(queue_name):
            echo(f"queue {queue_name!r} does not exist", err=True)
            sys.exit(EXIT_DIFFERENCE)


@queue.command()
@name_argument
@click.argument("msg_ids", metavar="[MSG_ID]...", type=int, nargs=-1)
@click.option("--key", type=FreeText(), help="Unpark a key that a failed message parked, instead.")
@click.option(
    "--delay",
    "delay_s",
    type=Duration(is_whole=True),
    default=0,
    metavar="DURATION",
    help="Time until they are visible.  [default: now]",
)
@accepted_yes_option
@json_lines_option
@dsn_option
def retry(
    queue_name: str, msg_ids: tuple[int, ...], key: str | None, delay_s: float, dsn: str | None
) -> None:
    """Make messages visible now that wait for a retry, a delay or a lease, and print their ids; or unpark a key.

    Their attempts are still counted. A message in flight is claimed again while its handler may still run. The messages
    of an unparked key are read again in order. Exits with 1 if an id was not found, or the key is not parked.
    """
    if bool(msg_ids) == (key is not None):
        raise click.UsageError("give one of: ids, --key")
    with open_connection(dsn) as connection:
        if key is None:
            vt = round(delay_s)
            with connection.transaction():
                changed = WorkQueue(connection).set_vt_batch(queue_name, msg_ids, vt)
                found = [message.msg_id for message in changed]
                _record(connection, "set_vt", queue_name, found, vt=vt)
            _acknowledged(msg_ids, found)
        elif not Operations(connection).unpark_messages(queue_name, key):
            echo(f"key {key!r} of queue {queue_name!r} is not parked", err=True)
            sys.exit(EXIT_DIFFERENCE)


def _record(
    connection: Connection[Any], action: str, queue_name: str, found: list[int], **of_filter: Any
) -> None:
    """Record an action on the messages that were found, in the transaction that changes them."""
    if found:
        Operations(connection).note_action(
            action,
            queue_name=queue_name,
            of_filter={"msg_ids": found, **of_filter},
            message_count=len(found),
        )


@queue.command()
@click.argument("stream_name", metavar="STREAM")
@accepted_yes_option
@json_option
@dsn_option
def release_stream(stream_name: str, as_json: bool, dsn: str | None) -> None:
    """Release the claims of a Spark stream that will not resume. Exits with 1 if it does not exist.

    Stop its query first. The messages become visible again; those that the stream has already written are delivered
    twice. `pipeline status` lists the streams.
    """
    with queue_clients(dsn) as clients:
        released = clients.operations.queue_stream_drop(stream_name)
    if released is None:
        echo(f"stream {stream_name!r} does not exist", err=True)
        sys.exit(EXIT_DIFFERENCE)
    print_result({"released": released}, f"{counted(released, 'message')} released", as_json)


def _acknowledged(requested: tuple[int, ...], found: list[int]) -> None:
    for msg_id in found:
        echo(msg_id)
    report(requested, found, "the queue")


for _command in (browse, drop_export, failing, replay, set_, show_, tail, topics):
    queue.add_command(_command)
