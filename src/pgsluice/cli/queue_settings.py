"""`pgsluice queue set` and `show`: options of queues."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from pgsluice.cli.clients import queue_clients, work_queue
from pgsluice.cli.options import (
    confirm,
    dsn_option,
    json_lines_option,
    json_option,
    name_argument,
    yes_option,
)
from pgsluice.cli.printing import echo
from pgsluice.cli.settings import parse_settings, settings_argument, show_record
from pgsluice.cli.types import FOREVER
from pgsluice.client import QueueOptions, QueueSettings, WorkQueue
from pgsluice.errors import NotInstalledError


def paused_queues(work: WorkQueue) -> dict[str, QueueSettings]:
    """Return the paused queues by name; none if an older release is installed."""
    try:
        return {of.queue_name: of for of in work.list_queue_options() if of.paused_at is not None}
    except NotInstalledError:
        return {}


@click.command("set")
@name_argument
@settings_argument
@yes_option
@json_lines_option
@dsn_option
def set_(queue_name: str, settings: tuple[str, ...], yes: bool, dsn: str | None) -> None:
    """Change options of a queue; the others keep their values. An empty value resets an option to its default.

    \b
    paused                true: workers claim no messages [false]
    pause_reason          shown with the pause
    archive_retention     delete archived messages that are older [forever]
    max_attempts          attempts before a message is dead-lettered [5]
    backoff               constant, linear or exponential [exponential]
    backoff_base          back-off after the first attempt [1s]
    backoff_max           maximum back-off [5m]
    backoff_jitter        multiply each back-off by 0.5 to 1 [true]
    backoff_factor        multiplier of the exponential back-off [2]
    deduplication_window  how long a deduplication key is known [none]
    deduplication_until   instead of a window: a key is known until its
                          message is claimed, or done [none]
    on_duplicate          effect of a duplicate on a message that is not
                          claimed: keep, debounce (its time) or replace
                          (its payload and time) [keep]
    fleet_concurrency     maximum messages in flight [no limit]
    key_concurrency       maximum messages in flight per key [no limit]
    rate                  maximum messages claimed: 100/s, 5/10m [no limit]
    when_waiting          order by key; while a message waits for its
                          retry: block its key, skip it, or park the key
                          until `queue retry --key` [no order]
    priority_weights      weights of 2 to 9 levels, the most urgent
                          first: 16,4,1 [no priorities]

    Workers respect a pause and limits; `queue read`, `queue pop` and PGMQ's functions do not. Limits set here replace
    those that handlers declare, until they are reset. A retry policy applies to handlers that declare none. The key of
    a message is its header x-pgmq-group, its level x-pgmq-priority.

    Asks for confirmation if maintenance would delete archived messages now.
    """
    options = parse_settings(_plain(settings), QueueOptions)
    with work_queue(dsn) as work:
        keep = options.get("archive_retention")
        if keep is not None and _has_older(work, queue_name, keep):
            confirm(yes, f"Delete the archived messages of queue {queue_name!r} that are older?")
        if work.set_queue_options(queue_name, **options) == "unchanged":
            echo(f"queue {queue_name!r} has these options already", err=True)


@click.command("show")
@name_argument
@json_option
@dsn_option
def show_(queue_name: str, as_json: bool, dsn: str | None) -> None:
    """Show the options of a queue, with the defaults of its retry policy, and what belongs to it.

    \b
    partitions    those of the queue and its archive
    exports       exports of the archive to a data lake: kept counts verified
                  messages that another export or the retention keeps
    streams       Spark streams that read the queue: claimed_messages counts
                  unacknowledged messages
    replays       unfinished and finished replays, newest first
    blocked_keys  keys whose messages are blocked by a limit or an earlier
                  message, longest wait first
    handlers      retry policies that handlers of live workers declare,
                  instead of the options
    """
    with queue_clients(dsn) as clients:
        options = clients.work.queue_options(queue_name)

        def of_queue(found: Iterable[Any]) -> list[Any]:
            return [each for each in found if each.queue_name.lower() == queue_name.lower()]

        show_record(
            options,
            as_json,
            partitions=lambda: clients.operations.list_partitions(queue_name),
            exports=lambda: of_queue(clients.archive.list_exports()),
            streams=lambda: of_queue(clients.operations.list_queue_streams()),
            replays=lambda: of_queue(reversed(clients.archive.list_replays())),
            handlers=lambda: clients.operations.handler_policies(f"queue {queue_name}"),
            blocked_keys=lambda: clients.operations.list_blocked_messages(queue_name),
        )


def _plain(settings: tuple[str, ...]) -> list[str]:
    """Return the settings with `rate=5/10m` as a rate and its interval, and a retention of `forever` as none."""
    plain: list[str] = []
    for setting in settings:
        name, _, value = setting.partition("=")
        rate, _, per = value.partition("/")
        if name == "rate" and rate and per:
            plain += [f"rate={rate}", f"rate_interval={per if per[:1].isdigit() else f'1{per}'}"]
        elif name.replace("-", "_") == "archive_retention" and value == FOREVER:
            plain.append("archive_retention=")
        else:
            plain.append(setting)
    return plain


def _has_older(work: WorkQueue, queue_name: str, keep: timedelta) -> bool:
    until = datetime.now(UTC) - keep
    return bool(work.browse(queue_name, "archive", until=until, qty=1))
