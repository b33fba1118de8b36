"""Changes of the last ten minutes: actions of operators, workers, dead letters and failures of maintenance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from pgsluice.client import OperatorAction, WorkerProcess
from pgsluice.client.calls import changes
from pgsluice.dashboard.database import Database, PageSession
from pgsluice.dashboard.rendering import number

_LENGTH = timedelta(minutes=10)
_READ = 50  # of each kind
_SHOWN = 30
_SETTINGS = ("set_queue_options", "set_log_options")


@dataclass(frozen=True, slots=True)
class RecentChange:
    """A change.

    Attributes:
        at: Its time.
        text: One sentence.
        page: Name of the page that shows more.
        query: The query of this page.
        badge: Kind of its badge; empty: it is no trouble.
    """

    at: datetime
    text: str
    page: str
    query: dict[str, Any] = field(default_factory=dict)
    badge: str = ""


@dataclass(frozen=True, slots=True)
class RecentChanges:
    """The newest changes.

    Attributes:
        shown: The newest, newest first.
        count: Their number, at most 50 of each kind.
        missing: The kinds that could not be read, with the reason.
    """

    shown: list[RecentChange]
    count: int
    missing: list[tuple[str, str]]


_Read = Callable[[PageSession, datetime], Iterator[RecentChange]]


def read_changes(database: Database, workers: list[WorkerProcess]) -> RecentChanges:
    """Return what changed in the last ten minutes; each kind is read for itself, as rights differ."""
    since = datetime.now(UTC) - _LENGTH
    kinds: dict[str, _Read] = {
        "actions of operators": _actions,
        "workers that ended": _ended,
        "dead letters": _dead_letters,
        "failures of maintenance": _failures,
    }
    found = [change for worker in workers for change in _of_worker(worker) if since <= change.at]
    missing = []
    for kind, read in kinds.items():
        part = database.part(partial(_listed, read, since), "changes", kind)
        found += part.value or ()
        if part.problem:
            missing.append((kind, part.problem))
    found.sort(key=lambda each: each.at, reverse=True)
    return RecentChanges(found[:_SHOWN], len(found), missing)


def _listed(read: _Read, since: datetime, session: PageSession) -> list[RecentChange]:
    return list(read(session, since))


def _actions(session: PageSession, since: datetime) -> Iterator[RecentChange]:
    for each in session.operations.list_actions(qty=_READ):
        if each.acted_at >= since:
            yield RecentChange(each.acted_at, _action(each), "audit", {"queue": each.queue_name})


def _action(each: OperatorAction) -> str:
    """Return an action as a sentence: pauses by their effect, the others by their name."""
    arguments = each.filter or {}
    name, place = each.action, each.queue_name or ""
    if name in _SETTINGS and "paused" in arguments:
        return f"{place} {'paused' if arguments['paused'] else 'resumed'} by {each.actor}"
    if name == "unregister_consumer":
        return f"consumer {arguments.get('consumer_name')} of log {place} dropped by {each.actor}"
    if name == "drop_group":
        return f"share group {arguments.get('group_name')} of log {place} dropped by {each.actor}"
    count = "" if each.message_count is None else f", {number(each.message_count)} messages"
    return f"{name} {place} by {each.actor}{count}".replace("  ", " ")


def _of_worker(worker: WorkerProcess) -> Iterator[RecentChange]:
    name, query = f"worker {worker.app} on {worker.host}", {"worker": worker.worker_id}
    yield RecentChange(worker.started_at, f"{name} started", "workers", query)
    if not worker.is_live:
        yield RecentChange(
            worker.reported_at, f"{name} reported last: it is lost", "workers", query, "fail"
        )


def _ended(session: PageSession, since: datetime) -> Iterator[RecentChange]:
    for each in session.run(changes.ended_workers(since, _READ)):
        yield RecentChange(each.ended_at, f"worker {each.app} on {each.host} ended", "workers")


def _dead_letters(session: PageSession, since: datetime) -> Iterator[RecentChange]:
    for each in session.run(changes.new_dead_letters(since, _READ)):
        place = f"{each.queue_name} {each.consumer_name or ''}".strip()
        more = " or more" if each.letters >= changes.DEAD_LETTERS_MAX else ""
        text = f"{number(each.letters)}{more} dead letters of {place}: {each.error_type or 'no error type'}"
        query = {
            "queue": each.queue_name,
            "consumer": each.consumer_name,
            "error_type": each.error_type,
        }
        yield RecentChange(each.last_dead_at, text, "dead_letters", query, "fail")


def _failures(session: PageSession, since: datetime) -> Iterator[RecentChange]:
    for each in session.run(changes.failed_maintenance(since, _READ)):
        place = f" of {each.queue_name}" if each.queue_name else ""
        yield RecentChange(
            each.failed_at, f"maintenance {each.task}{place} failed", "doctor", badge="fail"
        )
