"""Recent changes for the overview of the dashboard: bounded queries by index, as calls."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from pgsluice.client.calls.call import Call, record

# Dead letters that are read, newest first; a change of many has this many at most.
DEAD_LETTERS_MAX = 1_000


class EndedWorker(NamedTuple):
    """A worker process that stopped gracefully."""

    app: str
    host: str
    pid: int
    ended_at: datetime


class NewDeadLetters(NamedTuple):
    """Dead letters of one queue, or share group or consumer of a log, with one error type."""

    queue_name: str
    consumer_name: str | None
    error_type: str | None
    letters: int
    last_dead_at: datetime


class FailedMaintenance(NamedTuple):
    """A maintenance step whose last attempt failed; its text is not for monitors."""

    task: str
    queue_name: str
    failed_at: datetime


def ended_workers(since: datetime, qty: int) -> Call[list[EndedWorker]]:
    """Return the workers that ended since a time, newest first; maintenance may have removed them."""
    return Call(
        "select p.app, p.host, p.pid, r.ended_at "
        "from sluice.process_report as r join sluice.process as p on p.process_id = r.process_id "
        "where r.ended_at >= %s::timestamptz order by r.ended_at desc limit %s::integer",
        (since, qty),
        record(EndedWorker),
    )


def new_dead_letters(since: datetime, qty: int) -> Call[list[NewDeadLetters]]:
    """Return the dead letters since a time, of the newest `DEAD_LETTERS_MAX`, by place and error type, newest first."""
    return Call(
        "select d.queue_name, d.consumer_name, d.error_type, count(*), max(d.dead_at) "
        "from (select n.queue_name, n.consumer_name, n.error_type, n.dead_at from sluice.dead_letter as n "
        "order by n.dead_letter_id desc limit %s::integer) as d where d.dead_at >= %s::timestamptz "
        "group by d.queue_name, d.consumer_name, d.error_type order by max(d.dead_at) desc limit %s::integer",
        (DEAD_LETTERS_MAX, since, qty),
        record(NewDeadLetters),
    )


def failed_maintenance(since: datetime, qty: int) -> Call[list[FailedMaintenance]]:
    """Return the maintenance steps that failed since a time, newest first."""
    return Call(
        "select f.task, f.queue_name, f.failed_at from sluice.failure as f "
        "where f.failed_at >= %s::timestamptz order by f.failed_at desc limit %s::integer",
        (since, qty),
        record(FailedMaintenance),
    )
