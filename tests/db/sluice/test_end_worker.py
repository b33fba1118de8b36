"""sluice.end_worker: a worker that stops gracefully is no longer listed, and leaves no dead row."""

import psycopg
import pytest

from support import rows, value

REPORT = "select sluice.report_worker(%s, 'a', 'h', 1, '1', '{}', null, '1 s')"


def test_ended_worker_is_not_listed(connection: psycopg.Connection):
    connection.execute(REPORT, ("w",))
    connection.execute(REPORT, ("v",))

    connection.execute("select sluice.end_worker('w')")

    assert rows(connection, "select worker_id from sluice.list_workers()") == [("v",)]
    assert value(connection, "select count(*) from sluice.process") == 2


def test_unknown_worker_is_ignored(connection: psycopg.Connection):
    connection.execute("select sluice.end_worker('w')")

    assert value(connection, "select count(*) from sluice.process_report") == 0


def test_readers_end_their_worker_and_monitors_do_not(connection: psycopg.Connection, as_member):
    assert as_member("sluice_reader", "select sluice.end_worker('w')") == [(None,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_monitor", "select sluice.end_worker('w')")


def test_maintenance_removes_ended_workers_after_an_hour_and_silent_ones_after_a_day(
    connection: psycopg.Connection,
):
    """With _maintain_processes."""
    query = "select task, done, detail from sluice._maintain_processes('1 hour')"
    for worker_id in ("live", "ended", "silent"):
        connection.execute(REPORT, (worker_id,))
    connection.execute("select sluice.end_worker('ended')")
    assert rows(connection, query) == []

    connection.execute(
        "update sluice.process_report set reported_at = reported_at - interval '2 hours', "
        "ended_at = ended_at - interval '2 hours'"
    )
    removed = "1 workers removed that have ended or were silent for a day"
    assert rows(connection, query) == [("processes", True, removed)]
    connection.execute(
        "update sluice.process_report set reported_at = now() where process_id = 'live'"
    )
    connection.execute(
        "update sluice.process_report set reported_at = now() - interval '25 hours' where process_id = 'silent'"
    )
    connection.execute("update sluice.process set started_at = now() - interval '26 hours'")
    assert rows(connection, query) == [("processes", True, removed)]

    assert rows(connection, query) == []
    assert rows(connection, "select process_id from sluice.process") == [("live",)]
