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
from pgsluice.dashboard.rendering import quantity, whose

_LENGTH = timedelta(minutes=10)
_READ = 50  # of each kind
_SHOWN = 30
_SETTINGS = ("set_queue_options", "set_log_options")
_NAMES = ("name", "consumer_name", "group_name")  # arguments that name an object
_SENTENCES = {
    "drop_group": "share group {name} of log {place} dropped",
    "drop_queue": "{place} dropped",
    "pause_schedule": "schedule {name} paused",
    "purge_dead_letters": "dead letters of {place} purged",
    "purge_messages": "queue {place} purged",
    "purge_queue": "queue {place} purged",
    "redrive": "dead letters of {place} redriven",
    "resume_schedule": "schedule {name} resumed",
    "run_schedule": "schedule {name} run",
    "set_log_options": "settings of log {place} changed ({options})",
    "set_queue_options": "settings of queue {place} changed ({options})",
    "unregister_consumer": "consumer {name} of log {place} dropped",
    "unschedule": "schedule {name} removed",
}


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
    """Return an action as a sentence, by its effect; one that has no sentence here, by its name."""
    arguments = each.filter or {}
    place = each.queue_name or ""
    kind = "log" if each.action == "set_log_options" else "queue"
    sentence = _SENTENCES.get(each.action, "{action}" + (" of {place}" if place else ""))
    if each.action in _SETTINGS and "paused" in arguments:
        sentence = "{kind} {place} paused" if arguments["paused"] else "{kind} {place} resumed"
    names = {
        "action": each.action,
        "kind": kind,
        "place": place,
        "options": ", ".join(arguments),
        "name": next((arguments[key] for key in _NAMES if key in arguments), ""),
    }
    count = "" if each.message_count is None else f": {quantity(each.message_count, 'message')}"
    return f"{sentence.format_map(names)} by {each.actor}{count}"


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
        place = whose(each.queue_name, each.consumer_name)
        least = "at least " if each.letters >= changes.DEAD_LETTERS_MAX else ""
        text = f"{least}{quantity(each.letters, 'dead letter')} of {place}: {each.error_type or 'no error type'}"
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
