"""The result of a check, and the limits beyond which a check reports."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pgsluice.client.calls.doctor import Symptom

if TYPE_CHECKING:
    from pgsluice.ops.doctor.probe import Probe

Status = Literal["ok", "warn", "fail", "unknown"]
Scope = Literal["server", "tables", "schema"]
_SEVERITY: tuple[Status, ...] = ("ok", "unknown", "warn", "fail")
# Without sluice_admin and pg_monitor about an eighth of the checks are unknown.
_UNKNOWN_MAX = 1 / 3
_NAMED = 3  # symptoms that a finding names; it counts the others


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits beyond which a check reports, in seconds, bytes, rows or transactions.

    Attributes:
        idle_in_transaction_s: Idle time of a session in a transaction.
        snapshot_s: Time of a statement that holds a snapshot.
        snapshot_age: Age of a held snapshot, in transactions.
        prepared_s: Time since a transaction was prepared.
        slot_bytes: WAL kept by an inactive replication slot.
        dead_rows: Dead rows of a table.
        vacuum_s: Time since the last vacuum of a table with dead rows.
        count_s: Time of a statement that counts the rows of a queue.
        clock_s: Difference between the clocks of client and server.
        cron_bytes: Size of the history of pg_cron.
        connections: Fraction of the connections in use.
        notifications: Fraction of the server's queue of notifications in use.
        undrained_s: Time since a message, or an event of a share group, has been ready, without a read.
        held_s: Time since a message was read, and left until it is visible.
        read_ct: Reads of a message.
        dead_letters: New dead letters of a queue within `dead_letters_s`.
        dead_letters_s: See `dead_letters`.
        grouped_bytes: Size of a queue whose messages have groups.
        archive_bytes: Size of an archive without a retention.
        stage_s: Age of a stage; maintenance drops it after one day.
        tick_s: Time since a log's last tick, beyond twice its idle period.
        overdue_s: Time since the last maintenance of partitions.
        late_s: Time since a schedule was due.
        consumer_idle_s: Time since the last read of a consumer that keeps `pinned_bytes`.
        pinned_bytes: Size of the segments kept for a consumer.
        unread_s: Time since the last read of a consumer or pipeline that is behind; a nightly one is quiet.
        gone_s: Time since a pipeline whose consumer is gone was started.
    """

    idle_in_transaction_s: float = 300
    snapshot_s: float = 3600
    snapshot_age: int = 1_000_000
    prepared_s: float = 300
    slot_bytes: int = 1 << 30
    dead_rows: int = 100_000
    vacuum_s: float = 600
    count_s: float = 5
    clock_s: float = 5
    cron_bytes: int = 100 << 20
    connections: float = 0.8
    notifications: float = 0.1
    undrained_s: float = 3600
    held_s: float = 1800
    read_ct: int = 100
    dead_letters: int = 10
    dead_letters_s: float = 3600
    grouped_bytes: int = 1 << 20
    archive_bytes: int = 1 << 30
    stage_s: float = 2 * 86_400
    tick_s: float = 60
    overdue_s: float = 600
    late_s: float = 120
    consumer_idle_s: float = 3600
    pinned_bytes: int = 1 << 30
    unread_s: float = 26 * 3600
    gone_s: float = 30 * 86_400


@dataclass(frozen=True, slots=True)
class Check:
    """A check.

    Attributes:
        name: Name in the output.
        why: One line: the consequence of the symptom.
        all_clear: One line for the status ok.
        look: Returns the symptoms.
        is_fixable: True if `repair` runs the SQL commands of its symptoms: they concern our objects only, and are
            idempotent and reversible.
        scope: What the check needs: nothing of ours (`server`), the tables of queues, which `schema install
            --tables-only` installs (`tables`), or all of the schemas (`schema`).
    """

    name: str
    why: str
    all_clear: str
    look: Callable[[Probe], Iterable[Symptom]]
    is_fixable: bool = False
    scope: Scope = "schema"

    def finding(self, symptoms: list[Symptom]) -> Finding:
        """Return the finding of these symptoms; the worst one decides."""
        if not symptoms:
            return Finding(self.name, "ok", self.all_clear, self.why)
        symptoms = sorted(symptoms, key=lambda each: -_rank(each.status))
        worst = _SEVERITY[_rank(symptoms[0].status)]
        named = "; ".join(symptom.what for symptom in symptoms[:_NAMED])
        more = f"; {len(symptoms) - _NAMED} more" if len(symptoms) > _NAMED else ""
        commands = dict.fromkeys(_plain(each.command) for each in symptoms if each.command)
        is_fixable = self.is_fixable and worst != "unknown"
        return Finding(self.name, worst, named + more, self.why, tuple(commands), is_fixable)


def _plain(command: str) -> str:
    """Return a command of pgsluice with only the quotes that a shell needs."""
    if not command.startswith("pgsluice "):
        return command
    try:
        return shlex.join(shlex.split(command))
    except ValueError:  # a name with a quote or a backslash
        return command


def _rank(status: str) -> int:
    return [str(known) for known in _SEVERITY].index(status)


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check.

    Attributes:
        check: Name of the check.
        status: `ok`, `warn`, `fail`, or `unknown` if the check could not see enough.
        what: One line: what was found.
        why: One line: its consequence.
        commands: SQL statements, or commands of `pgsluice`, that correct it.
        is_fixable: True if `repair` runs the SQL statements among the commands.
    """

    check: str
    status: Status
    what: str
    why: str
    commands: tuple[str, ...] = ()
    is_fixable: bool = False


def problem_of(findings: Sequence[Finding]) -> str | None:
    """Return the reason why findings are no diagnosis: more than a third of the checks are unknown; else None."""
    unknown = sum(each.status == "unknown" for each in findings)
    if unknown <= _UNKNOWN_MAX * len(findings):
        return None
    return f"{unknown} of {len(findings)} checks could not look; each has its reason, and the others are no diagnosis"
