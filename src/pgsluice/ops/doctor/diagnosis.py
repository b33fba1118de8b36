"""Run the checks, and the commands of those that may be repaired."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from pgsluice import schema
from pgsluice.client.calls import doctor
from pgsluice.client.calls.doctor import Symptom
from pgsluice.connection import tuple_cursor
from pgsluice.errors import NotInstalledError, PrivilegeError, SluiceError, one_line, translate
from pgsluice.ops.doctor import log_checks, queue_checks, schema_checks, server_checks
from pgsluice.ops.doctor.findings import Check, Finding, Scope
from pgsluice.ops.doctor.probe import BudgetSpentError, Probe
from pgsluice.ops.doctor.thresholds import Thresholds

CHECKS: tuple[Check, ...] = (
    *server_checks.CHECKS,
    *schema_checks.CHECKS,
    *queue_checks.CHECKS,
    *log_checks.CHECKS,
)

_SCOPES: tuple[Scope, ...] = ("server", "tables", "schema")
_REPAIR_MS = 600_000
_LOCK_MS = 2000
_IN_CLI = "pgsluice "


@dataclass(frozen=True, slots=True)
class Repair:
    """A command that `repair` has run.

    Attributes:
        check: Name of the check.
        command: The SQL statement.
        error: Reason why it failed, or None.
    """

    check: str
    command: str
    error: str | None


def diagnose(
    connection: psycopg.Connection[Any],
    *,
    thresholds: Thresholds | None = None,
    budget_s: float = 2.0,
    only: Collection[str] = (),
    reconnect: Callable[[], psycopg.Connection[Any]] | None = None,
) -> Iterator[Finding]:
    """Run the checks and yield a finding for each, in order.

    Args:
        connection: A connection in autocommit mode.
        thresholds: Thresholds beyond which a check reports (default: `Thresholds()`).
        budget_s: Time of each check, in seconds. A check that needs longer is reported as unknown.
        only: Names of the checks to run (default: all).
        reconnect: Opens another connection in autocommit mode, to tell a pooler's session mode from the others; without
            it any pooler is reported.
    """
    # A pooler gives each transaction another server session, without the statements prepared in the last one.
    connection.prepare_threshold = None
    # A statement after a lock must see what was committed before the lock.
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    probe = Probe(connection, thresholds or Thresholds(), budget_s, reconnect)
    found: Scope | None = None
    for check in CHECKS:
        if only and check.name not in only:
            continue
        if connection.closed:
            yield Finding(check.name, "unknown", "the connection was lost", check.why)
            continue
        if check.scope != "server" and found is None:
            found = _found(probe)
        if _SCOPES.index(check.scope) <= _SCOPES.index(found or "server"):
            yield _run(check, probe)
        elif found == "tables":
            what = "does not apply: only the tables are installed, without functions"
            yield Finding(check.name, "ok", what, check.why)
        else:
            yield Finding(check.name, "unknown", "the schema is not installed", check.why)


def _found(probe: Probe) -> Scope:
    """Return what can be checked; all if the server does not tell: each check reports the reason."""
    try:
        with probe.budget():
            installed = probe.within(schema.installed_versions)
    except (psycopg.Error, BudgetSpentError, SluiceError):
        return "schema"
    if not installed:
        return "server"
    return "tables" if schema.has_tables_only(installed) else "schema"


def _run(check: Check, probe: Probe) -> Finding:
    """Run one check; every error is a finding."""
    try:
        with probe.budget():
            return check.finding(list(check.look(probe)))
    except (BudgetSpentError, psycopg.errors.QueryCanceled):
        reason, command = f"it needs longer than {probe.budget_s:g} s", ""
    except (psycopg.errors.InsufficientPrivilege, PrivilegeError) as error:
        reason = f"{_text(error)}; to see it, connect as a member of sluice_admin and pg_monitor"
        command = ""
    except (
        psycopg.errors.UndefinedTable,
        psycopg.errors.UndefinedFunction,
        psycopg.errors.UndefinedColumn,
        psycopg.errors.InvalidSchemaName,
        NotInstalledError,
    ) as error:
        reason = f"the installed schema is older or incomplete: {_text(error)}"
        command = "pgsluice schema verify"
    except Exception as error:  # noqa: BLE001 - one check must not hide the others
        reason, command = f"{type(error).__name__}: {_text(error)}", ""
    return check.finding([Symptom("unknown", reason, command)])


def _text(error: Exception) -> str:
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        return error.diag.message_primary
    return one_line(str(error))


def repair(connection: psycopg.Connection[Any], findings: Sequence[Finding]) -> Iterator[Repair]:
    """Run the SQL commands of the findings that may be repaired, and yield each with its result.

    Args:
        connection: A connection in autocommit mode, of a role that owns the objects.
        findings: Findings of `diagnose`.
    """
    for finding in findings:
        if not finding.is_fixable:
            continue
        for command in finding.commands:
            if not command.startswith(_IN_CLI):
                yield Repair(finding.check, command, _repair_error(connection, command))


def _repair_error(connection: psycopg.Connection[Any], command: str) -> str | None:
    try:
        if command.startswith("vacuum"):  # cannot run in a transaction block
            connection.execute(command.encode(), prepare=False)
            return None
        with connection.transaction():
            limits = doctor.limit_fix(_REPAIR_MS, _LOCK_MS)
            with tuple_cursor(connection) as cursor:
                cursor.execute(limits.sql, limits.parameters, prepare=False)
            connection.execute(command.encode(), prepare=False)
    except psycopg.Error as error:
        return str(translate(error))
    except SluiceError as error:
        return str(error)
    return None
