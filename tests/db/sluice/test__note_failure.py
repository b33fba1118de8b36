"""sluice._note_failure: infrequent writes, privileges, and removal of old failures."""

from __future__ import annotations

import psycopg
import pytest

from support import rows
from support.failures import (
    FAILURES,
)
from support.servers import Database


@pytest.fixture
def database(database_18: Database) -> Database:
    return database_18


def test_failures_of_a_dropped_log_and_of_the_day_before_are_deleted(
    logs: psycopg.Connection, warnings: list[str]
) -> None:
    logs.execute(
        "insert into sluice.failure (task, queue_name, group_name, failed_since, failed_at, error)"
        " values ('tick', 'dropped', '', now(), now(), 'e'),"
        " ('groups', 'events', 'dropped', now(), now(), 'e'),"
        " ('inbox', '', '', now(), now(), 'kept'),"
        " ('limits', '', '', now() - interval '2 days', now() - interval '25 hours', 'e')"
    )
    logs.execute("select sluice.rotate()")
    assert rows(logs, FAILURES) == [("inbox", None, None, "kept")]


def test_failure_that_repeats_is_written_once_in_ten_seconds_and_waits_for_no_other_session(
    database: Database, logs: psycopg.Connection, warnings: list[str]
) -> None:
    note = "select sluice._note_failure('tick', 'broken', null, %s)"
    with database.connect(autocommit=False) as other:
        other.execute(note, ("first",))
        logs.execute(note, ("second",))  # skipped, as the other session has the row
        other.commit()
    versions = "select xmin::text, error from sluice.failure"
    (before,) = rows(logs, versions)
    logs.execute(note, ("first",))
    assert rows(logs, versions) == [before]
    logs.execute(note, ("third",))
    assert rows(logs, FAILURES) == [("tick", "broken", None, "third")]
    logs.execute(note, (None,))
    assert rows(logs, FAILURES) == []


def test_only_maintenance_writes_failures(connection: psycopg.Connection) -> None:
    note = "select sluice._note_failure('tick', 'x', null, 'e')"
    for role in ("sluice_reader", "sluice_writer", "sluice_monitor", "pgq_reader", "pgq_writer"):
        connection.execute(f"set role {role}")
        for statement in (
            "select * from sluice.failure",
            "select sluice.list_failures()",
            "delete from sluice.failure",
            note,
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
    for role in ("sluice_admin", "pgq_admin"):
        connection.execute(f"set role {role}")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("delete from sluice.failure")
        assert rows(connection, FAILURES) == []
