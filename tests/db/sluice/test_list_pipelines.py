from datetime import UTC, datetime

import psycopg

from support import rows, value
from support.servers import Database

COLUMNS = [
    "log_name",
    "consumer_name",
    "kind",
    "lake",
    "is_running",
    "held_since",
    "held_by",
    "last_commit_at",
    "row_count",
    "lag_events",
    "lag_s",
    "reported_at",
]


def test_pipelines_have_their_progress_and_lag(log: psycopg.Connection, database: Database):
    at = datetime(2026, 1, 1, tzinfo=UTC)
    log.execute("select pgq.register_consumer_at('log', 'c', 2)")
    with database.connect() as running:
        running.execute(
            "select sluice.hold_pipeline('log', 'c', 'changes', '/lake', %s)",
            (running.info.backend_pid,),
        )
        running.execute("select sluice.report_pipeline('log', 'c', 7, %s)", (at,))

        cursor = log.execute("select * from sluice.list_pipelines()")

        assert [c.name for c in cursor.description] == COLUMNS
        (found,) = cursor.fetchall()
        pid = running.info.backend_pid
    assert found[:5] == ("log", "c", "changes", "/lake", True)
    assert found[6].startswith(f"pid {pid}, ")
    assert found[7:10] == (at, 7, 30)
    assert found[10] > 0
    assert found[5] <= found[11]

    value(log, "select pg_terminate_backend(%s, 10000)", pid)
    assert rows(log, "select is_running from sluice.list_pipelines()") == [(False,)]


def test_pipeline_whose_consumer_is_unregistered_is_not_listed(log: psycopg.Connection):
    log.execute(
        "select sluice.hold_pipeline('log', 'c', 'events', '/lake', %s)", (log.info.backend_pid,)
    )

    assert rows(log, "select * from sluice.list_pipelines()") == []


def test_monitor_sees_them(log: psycopg.Connection):
    log.execute("set role sluice_monitor")

    assert rows(log, "select * from sluice.list_pipelines()") == []


def test_logs_without_a_pipeline_are_not_read(log: psycopg.Connection, buffers):
    log.execute("select pgq.register_consumer('log', 'c')")
    log.execute("select sluice.hold_pipeline('log', 'c', 'changes', '/lake', pg_backend_pid())")
    alone = buffers("select * from sluice.list_pipelines()")
    for number in range(20):
        log.execute("select pgq.create_queue(%s)", (f"l{number}",))
        log.execute("select pgq.register_consumer(%s, 'c')", (f"l{number}",))

    assert buffers("select * from sluice.list_pipelines()") < alone + 50
