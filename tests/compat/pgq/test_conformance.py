"""The same calls on PgQ and on pgsluice: rows, columns, notices, errors and tables are equal.

Cases mark each intended difference with a line of "Differences from PgQ 3.5".
"""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg
import pytest

from compat.pgq.cases import SCENARIOS, statement_of
from compat.pgq.cases.marking import Differs
from compat.pgq.observing import CODES_OF_PGQ, outcome, prepare, state, unlike
from support import rows, value, wait_until


@pytest.mark.parametrize("name", SCENARIOS)
def test_ours_answers_as_pgq_does(both, name):
    ours, peer = both
    wrong = []
    standing: dict[str, str] = {}
    since = datetime.now(UTC)
    for connection in both:
        prepare(connection, since)

    for step in SCENARIOS[name]:
        statement = statement_of(step)
        mine, theirs = outcome(ours, statement, since), outcome(peer, statement, since)
        seen = list(unlike(mine, theirs).values())
        # Report a lasting difference for the first statement only.
        left = unlike(state(ours), state(peer))
        seen += [line for table, line in left.items() if standing.get(table) != line]
        standing = left
        if bool(seen) != isinstance(step, Differs):
            wrong.append("\n    ".join([statement, *(seen or ["no longer differs"])]))
        if mine.get("code") in CODES_OF_PGQ:
            wrong.append(f"{statement}\n    has no code of its own: {mine}")

    assert not wrong, "\n".join(wrong)


def test_on_a_server_without_autovacuum_there_are_tables_to_vacuum(pgq_server, both):
    def set_autovacuum(statement: str, setting: str) -> None:
        with psycopg.connect(pgq_server.url(), autocommit=True) as connection:
            connection.execute(statement)
            connection.execute("select pg_reload_conf()")
        wait_until(
            lambda: all(value(one, "show autovacuum") == setting for one in both), "the new setting"
        )

    set_autovacuum("alter system set autovacuum = off", "off")
    try:
        mine = {table for (table,) in rows(both[0], "select * from pgq.maint_tables_to_vacuum()")}
        vacuums = rows(both[0], "select func_name, func_arg from pgq.maint_operations()")
    finally:
        set_autovacuum("alter system reset autovacuum", "on")

    assert ("vacuum", "pgq.queue") in vacuums
    for table in mine:
        both[0].execute(f"vacuum {table}")
