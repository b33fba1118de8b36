"""Causes of trouble in the server and the database, as facts of `pgsluice explain`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import psycopg

from pgsluice.client import ExplainedFact
from pgsluice.ops.doctor import schema_checks, server_checks
from pgsluice.ops.doctor.diagnosis import diagnose
from pgsluice.ops.doctor.thresholds import Thresholds

# Checks of what the SQL functions that explain one object do not look at. Checks that read the heads of all queues are
# not among them: they need seconds with thousands of queues.
IN_EXPLAIN: tuple[str, ...] = (
    *(check.name for check in (*server_checks.CHECKS, *schema_checks.CHECKS)),
    "silent_workers",
    "fifo_indexes",
    "notify_triggers",
    "storage_settings",
    "archives",
    "maintenance",
)

_BUDGET_S = 1.0


def server_facts(
    connection: psycopg.Connection[Any],
    *,
    checks: Collection[str] = IN_EXPLAIN,
    thresholds: Thresholds | None = None,
    reconnect: Callable[[], psycopg.Connection[Any]] | None = None,
) -> list[ExplainedFact]:
    """Run the checks of server and database, and return a fact for each that warns or fails.

    A check that needs longer than a second, or that this role may not run, has no fact.

    Args:
        connection: A connection in autocommit mode.
        checks: Names of the checks.
        thresholds: Thresholds beyond which a check reports (default: `Thresholds()`).
        reconnect: See `diagnose`.

    Returns:
        The facts. `cause` is the name of the check; `status` in the detail is `warn` or `fail`; `commands` correct it.
    """
    findings = diagnose(
        connection, thresholds=thresholds, budget_s=_BUDGET_S, only=checks, reconnect=reconnect
    )
    return [
        ExplainedFact(
            "server",
            None,
            each.check,
            f"{each.what}: {each.why}",
            tuple(each.commands),
            {"status": each.status},
        )
        for each in findings
        if each.status in ("warn", "fail")
    ]
