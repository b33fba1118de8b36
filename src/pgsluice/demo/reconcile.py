"""The reconciliation of the lake with the database, row by row."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from pgsluice.demo.consume import QUEUE
from pgsluice.demo.statements import one_row, statement
from pgsluice.demo.workspace import Workspace
from pgsluice.verify import verify_archive, verify_current, verify_events

if TYPE_CHECKING:
    import pyarrow as pa

LOG = "changes"
# File of `sql/checks` → the statement that it checks.
CHECKS: dict[str, str] = {
    "balances": "balance of each account: in the lake = in the database",
    "events_created": "'c' events in the lake = accounts loaded at the start",
    "events_updated": "'u' events in the lake = transactions of the load",
    "events_once": "events in the lake = events of the log, each once",
    "messages_settled": "messages sent = archived + dead-lettered, none left in the queue",
    "messages_processed": "messages archived = messages processed, each once",
    "deltas": "amounts per account: sent = processed",
    "sums": "one sum of amounts: in the four tables of the load, the workers' table and the lake",
    "dead_letters": "dead letters = the poison message only",
    "retries": "messages that fail on their first attempt = processed on a later one",
}


# Comparison of the package `verify`, by row and column → the statement that it checks.
VERIFIED: dict[str, str] = {
    "current": "current-state table of the accounts in the lake = the table, every column",
    "events": "events in the lake = events of the log, every column",
    "archive": "archived messages in the lake = those of the queue's archive, every column",
}


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """A comparison and its outcome.

    Attributes:
        name: Its file in `sql/checks`, or one of `VERIFIED`.
        statement: The statement that is checked.
        expected: Rows, or an amount.
        found: The same, on the other side.
        differing: Number of differing rows.
        sample: The first five differing rows.
    """

    name: str
    statement: str
    expected: int
    found: int
    differing: int
    sample: Sequence[Mapping[str, Any]]

    @property
    def holds(self) -> bool:
        """True if the two sides agree, row by row."""
        return self.expected == self.found and self.differing == 0


def reconcile(
    connection: psycopg.Connection[Any], balances: pa.Table, events: pa.Table
) -> list[Reconciliation]:
    """Compare the lake with the database.

    Args:
        connection: To the demo's database, in autocommit mode or in a transaction without temporary tables
            of the same names; what it loads is rolled back.
        balances: From the lake: `aid`, `abalance`, one row per account.
        events: From the lake: `ev_id`, `ev_type`, one row per row of the table.

    Returns:
        Every check, in the order of `CHECKS`.
    """
    with connection.transaction(force_rollback=True):
        connection.execute(statement("lake_tables"))
        _copy(connection, "lake_balance_copy", balances.select(["aid", "abalance"]))
        _copy(connection, "lake_event_copy", events.select(["ev_id", "ev_type"]))
        connection.execute(statement("lake_tables_analyze"))
        return [_check(connection, name) for name in CHECKS]


def verify(dsn: str, workspace: Workspace) -> list[Reconciliation]:
    """Compare the lake's tables with the database by the package `verify`, independently of their writers.

    Args:
        dsn: The demo's database.
        workspace: The folder of the lake.

    Returns:
        Every check, in the order of `VERIFIED`.
    """
    reports = (
        verify_current("public.pgbench_accounts", workspace.current, dsn=dsn),
        verify_events(LOG, workspace.events, dsn=dsn),
        verify_archive(QUEUE, workspace.archives / QUEUE, dsn=dsn),
    )
    return [
        Reconciliation(
            name,
            VERIFIED[name],
            report.postgresql.rows,
            report.in_lake.rows,
            sum(report.counts.values()),
            [
                {"difference": row.kind, **row.key, "postgresql": row.postgresql, "lake": row.lake}
                for row in report.differences
            ],
        )
        for name, report in zip(VERIFIED, reports, strict=True)
    ]


def _check(connection: psycopg.Connection[Any], name: str) -> Reconciliation:
    row = one_row(connection, f"checks/{name}")
    return Reconciliation(
        name,
        CHECKS[name],
        int(row["expected"]),
        int(row["found"]),
        int(row["differing"]),
        row["sample"] or (),
    )


def _copy(connection: psycopg.Connection[Any], name: str, table: pa.Table) -> None:
    from pyarrow import csv  # not at the top, as the extra may be missing

    text = io.BytesIO()
    csv.write_csv(table, text, csv.WriteOptions(include_header=False))
    with connection.cursor() as cursor, cursor.copy(statement(name)) as copy:
        copy.write(text.getbuffer())
