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
    after: int = 0,
    checks: Collection[str] = IN_EXPLAIN,
    thresholds: Thresholds | None = None,
    reconnect: Callable[[], psycopg.Connection[Any]] | None = None,
) -> list[ExplainedFact]:
    """Run the checks of server and database, and return a fact for each that warns or fails.

    A check that needs longer than a second, or that this role may not run, has no fact.

    Args:
        connection: A connection in autocommit mode.
        after: Ordinal of the last fact before these.
        checks: Names of the checks.
        thresholds: Thresholds beyond which a check reports (default: `Thresholds()`).
        reconnect: See `diagnose`.

    Returns:
        The facts. `cause` in the detail is the name of the check; `status` is `warn` or `fail`; `commands` correct it.
    """
    findings = diagnose(
        connection, thresholds=thresholds, budget_s=_BUDGET_S, only=checks, reconnect=reconnect
    )
    bad = (each for each in findings if each.status in ("warn", "fail"))
    return [
        ExplainedFact(
            ordinal,
            "server",
            None,
            f"{each.what}: {each.why}",
            {"cause": each.check, "status": each.status, "commands": list(each.commands)},
        )
        for ordinal, each in enumerate(bad, after + 1)
    ]
