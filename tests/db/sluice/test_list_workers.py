"""sluice.list_workers: which worker processes live, are silent or lost, and what they run."""

import psycopg
import pytest

from support import rows, value
from support.servers import Database

COLUMNS = [
    *(
        "worker_id",
        "app",
        "host",
        "pid",
        "version",
        "sources",
        "concurrency",
        "started_at",
        "reported_at",
    ),
    *("is_live", "running", "counts", "role_name", "has_session", "policies", "times", "slowest"),
]
REPORT = (
    "select sluice.report_worker(%s, 'shop', 'h', 1, '1', array['queue orders'], 4, '1 s', "
    """'[{"handler": "pack", "queue": "orders", "msg_id": 7, "running_s": 1}]', '{"pack": {"done": 2}}', %s)"""
)
STATE = "select worker_id, is_live, has_session from sluice.list_workers()"


def test_newest_report_of_each_worker_is_listed(connection: psycopg.Connection):
    connection.execute(REPORT, ("w", None))
    first = value(connection, "select max(reported_at) from sluice.process_report")
    connection.execute(REPORT, ("w", None))

    cursor = connection.execute("select * from sluice.list_workers()")
    (found,) = cursor.fetchall()

    assert [c.name for c in cursor.description] == COLUMNS
    listed = dict(zip(COLUMNS, found, strict=True))
    assert listed["reported_at"] > first > listed["started_at"]
    assert [call | {"since": None} for call in listed["running"]] == [
        {"handler": "pack", "queue": "orders", "msg_id": 7, "since": None}
    ]
    assert listed["counts"] == {"pack": {"done": 2}}
    assert (listed["is_live"], listed["has_session"]) == (True, None)


def test_worker_whose_session_has_ended_is_lost(connection: psycopg.Connection, database: Database):
    with database.connect() as session:
        pid = session.info.backend_pid
        connection.execute(REPORT, ("w", pid))
        assert rows(connection, STATE) == [("w", True, True)]

    value(connection, "select pg_terminate_backend(%s, 10000)", pid)
    assert rows(connection, STATE) == [("w", False, False)]


def test_silent_worker_is_not_live_after_90_seconds_and_not_listed_after_a_day(
    connection: psycopg.Connection,
):
    connection.execute(REPORT, ("w", connection.info.backend_pid))
    later = "update sluice.process_report set reported_at = now() - interval '%s'"

    connection.execute(later.replace("%s", "80 s"))
    assert rows(connection, STATE) == [("w", True, True)]
    connection.execute(later.replace("%s", "100 s"))
    assert rows(connection, STATE) == [("w", False, True)]
    connection.execute(later.replace("%s", "25 hours"))
    assert rows(connection, STATE) == []


@pytest.mark.parametrize(
    "member_of", ["sluice_monitor", "sluice_reader", "pgq_reader", "sluice_admin"]
)
def test_monitor_sees_the_session_of_another_role(
    connection: psycopg.Connection, as_member, member_of
):
    connection.execute(REPORT, ("w", connection.info.backend_pid))

    assert as_member(member_of, STATE) == [("w", True, True)]
