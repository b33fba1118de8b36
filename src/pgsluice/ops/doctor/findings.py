"""Checks and their results."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pgsluice.client.calls.doctor import Symptom
from pgsluice.ops.doctor.probe import Probe

Status = Literal["ok", "warn", "fail", "unknown"]
Scope = Literal["server", "tables", "schema"]
_SEVERITY: tuple[Status, ...] = ("ok", "unknown", "warn", "fail")
# Without sluice_admin and pg_monitor about an eighth of the checks are unknown.
_UNKNOWN_MAX = 1 / 3
_NAMED = 3  # symptoms that a finding names; it counts the others


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
