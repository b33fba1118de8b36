from datetime import UTC, datetime

import psycopg

from support import rows, value
from support.servers import Database

AT = datetime(2026, 1, 1, tzinfo=UTC)
REPORT = "select sluice.report_pipeline('log', %s, %s, %s)"


def hold(connection: psycopg.Connection, consumer: str) -> None:
    connection.execute(
        "select sluice.hold_pipeline('log', %s, 'events', '/a', %s)",
        (consumer, connection.info.backend_pid),
    )


def test_time_of_the_last_commit_is_kept_by_later_reports(log: psycopg.Connection):
    hold(log, "c")
    log.execute(REPORT, ("c", 5, AT))
    log.execute(REPORT, ("c", 5, None))

    found = rows(
        log, "select row_count, last_commit_at from sluice.process_report order by report_id"
    )

    assert found == [(5, AT), (5, AT)]


def test_pipeline_that_was_not_held_is_not_reported(log: psycopg.Connection):
    log.execute(REPORT, ("c", 5, AT))

    assert value(log, "select count(*) from sluice.process_report") == 0


def test_reports_are_truncated_to_the_newest_of_each_even_under_a_held_snapshot(
    log: psycopg.Connection, database: Database
):
    for consumer in ("c", "d"):
        hold(log, consumer)
        log.execute(REPORT, (consumer, 1, AT))
    with database.connect(autocommit=False) as old:
        old.execute("set transaction isolation level repeatable read")
        old.execute("select 1")
        log.execute(
            "insert into sluice.process_report (process_id, reported_at, row_count) "
            "select p.process_id, now(), 2 from sluice.process as p, generate_series(1, 10000) "
            "where p.consumer_name = 'c'"
        )
        before = value(log, "select pg_relation_size('sluice.process_report')")
        log.execute(
            "insert into sluice.process_report (process_id, reported_at, row_count) "
            "select process_id, now(), 2 from sluice.process_report"
        )
        log.execute(REPORT, ("c", 3, AT))

    assert before > 0
    assert rows(
        log,
        "select p.consumer_name, r.row_count from sluice.process_report as r "
        "join sluice.process as p on p.process_id = r.process_id order by 1",
    ) == [("c", 3), ("d", 2)]
    assert value(log, "select pg_relation_size('sluice.process_report')") <= 8192


def test_events_after_the_position_are_returned(log: psycopg.Connection):
    hold(log, "c")
    assert value(log, REPORT, "c", 0, None) is None
    log.execute("select pgq.register_consumer_at('log', 'c', 2)")

    assert value(log, REPORT, "c", 0, None) == 30


def test_pipeline_that_stopped_is_kept_when_maintenance_removes_a_worker(log: psycopg.Connection):
    log.execute("select pgq.register_consumer('log', 'c')")
    hold(log, "c")
    log.execute(REPORT, ("c", 5, AT))
    log.execute("update sluice.process_report set reported_at = now() - interval '9 days'")
    log.execute("select sluice.report_worker('w', 'a', 'h', 1, '1', '{}', null, '1 s')")
    log.execute("select sluice.end_worker('w')")

    assert value(log, "select detail from sluice._maintain_processes('0')").startswith("1 workers")

    assert rows(
        log, "select consumer_name, row_count, last_commit_at from sluice.list_pipelines()"
    ) == [("c", 5, AT)]
    assert rows(log, "select process_id from sluice.process") == [("log 1 consumer c",)]
