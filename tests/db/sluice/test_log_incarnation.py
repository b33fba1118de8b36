"""sluice.log_incarnation: the identity of a log."""

from __future__ import annotations

import psycopg
import pytest

LOG = "log"


def test_a_log_made_again_is_another_log(log: psycopg.Connection):
    def incarnation() -> str:
        row = log.execute("select sluice.log_incarnation(%s)", (LOG,)).fetchone()
        assert row is not None
        return row[0]

    before = incarnation()
    log.execute("select pgq.drop_queue(%s)", (LOG,))
    log.execute("select pgq.create_queue(%s)", (LOG,))

    assert incarnation() != before


def test_incarnation_with_timeline_extends_the_one_without(log: psycopg.Connection):
    plain, same, timed = log.execute(
        "select sluice.log_incarnation('log'), sluice.log_incarnation('log', false), "
        "sluice.log_incarnation('log', true)"
    ).fetchone()

    assert same == plain
    assert timed == f"{plain}/00000001"


def test_an_unknown_log_is_named(connection: psycopg.Connection):
    with pytest.raises(psycopg.DatabaseError, match="event log 'none' does not exist") as caught:
        connection.execute("select sluice.log_incarnation('none')")
    assert caught.value.sqlstate == "PQ001"
