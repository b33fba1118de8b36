"""Rows and locks of statements: work that reads no blocks, such as nested loops, and what fills the lock table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import psycopg
from psycopg.rows import tuple_row

LOCKS = "select count(*) from pg_locks where pid = pg_backend_pid()"
_execute = psycopg.Cursor.execute


class Rows:
    """Rows counted.

    Attributes:
        total: Rows of all nodes of all plans, and those that a filter or a join has discarded.
        largest: The statement with the most, and its rows.
        locks: The most locks that a transaction had after a statement.
    """

    def __init__(self) -> None:
        """Start at zero."""
        self.total = 0.0
        self.largest = ("", 0.0)
        self.locks = 0

    def add(self, statement: str, plan: dict[str, Any]) -> None:
        """Add those of a plan."""
        rows = _rows(plan)
        self.total += rows
        if rows > self.largest[1]:
            self.largest = (" ".join(statement.split())[:200], rows)


@contextmanager
def rows_counted() -> Iterator[Rows]:
    """Count the rows of the queries of this process; each runs twice, so they must not write."""
    found = Rows()

    def execute(
        self: psycopg.Cursor[Any], query: Any, params: Any = None, **options: Any
    ) -> psycopg.Cursor[Any]:
        text = (
            query
            if isinstance(query, str)
            else query.decode()
            if isinstance(query, bytes)
            else query.as_string(self)
        )
        lines = [
            line for line in text.splitlines() if line.strip() and not line.strip().startswith("--")
        ]
        first = lines[0].split()[0].lower() if lines else ""
        # A function that sets something for the statements after it needs no explanation.
        if first in ("select", "with") and "set_config" not in text:
            with (
                self.connection.transaction(),
                psycopg.Cursor(self.connection, row_factory=tuple_row) as cursor,
            ):
                explained = "explain (analyze, timing off, format json) " + text
                plan = _execute(cursor, explained.encode(), params, prepare=False).fetchone()
                locks = _execute(cursor, LOCKS).fetchone()
            assert plan is not None
            assert locks is not None
            found.add(text, plan[0][0]["Plan"])
            found.locks = max(found.locks, locks[0])
        return _execute(self, query, params, **options)

    with patch.object(psycopg.Cursor, "execute", execute):
        yield found


def _rows(plan: dict[str, Any]) -> float:
    names = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Join Filter")
    own = sum(float(plan.get(name, 0)) for name in names)
    return own * float(plan["Actual Loops"]) + sum(map(_rows, plan.get("Plans", ())))
