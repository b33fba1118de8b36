"""sluice.report_worker, with _maintain_processes: reports are appended, and truncated to the newest of each worker."""

import psycopg
import pytest

from support import rows, value
from support.servers import Database

REPORT = "select sluice.report_worker(%s, 'shop', 'host', 7, '1.0', array['queue orders'], 4, '1 hour', %s::jsonb, %s::jsonb, %s)"
MAINTAIN = "sluice._maintain_processes('0')"
IDLE = ("[]", "{}", None)


def test_first_report_registers_the_worker_and_later_ones_append(connection: psycopg.Connection):
    connection.execute(REPORT, ("w", *IDLE))
    connection.execute(REPORT, ("w", "[]", '{"pack": {"done": 3}}', connection.info.backend_pid))

    assert rows(
        connection,
        "select process_id, app, host, pid, version, role_name, sources, concurrency, "
        "started_at between now() - interval '61 min' and now() - interval '59 min' from sluice.process",
    ) == [("w", "shop", "host", 7, "1.0", connection.info.user, ["queue orders"], 4, True)]
    assert rows(
        connection,
        "select counts, backend_pid is not null from sluice.process_report order by report_id",
    ) == [({}, False), ({"pack": {"done": 3}}, True)]


def test_running_calls_are_stored_longest_first_with_their_start_by_the_servers_clock(
    connection: psycopg.Connection,
):
    running = (
        '[{"handler": "a", "queue": "q", "msg_id": 1, "running_s": 2},'
        ' {"handler": "b", "log": "l", "group": "g", "ev_id": 2, "running_s": 60}]'
    )

    connection.execute(REPORT, ("w", running, "{}", None))

    assert rows(
        connection,
        "select r.call - 'since', reported_at - (r.call ->> 'since')::timestamptz = "
        "case r.call ->> 'handler' when 'a' then interval '2 s' else interval '60 s' end "
        "from sluice.process_report, jsonb_array_elements(running) with ordinality as r (call, number) order by number",
    ) == [
        ({"handler": "b", "log": "l", "group": "g", "ev_id": 2}, True),
        ({"handler": "a", "queue": "q", "msg_id": 1}, True),
    ]


def test_slowest_calls_are_stored_slowest_first_with_their_end_by_the_servers_clock(
    connection: psycopg.Connection,
):
    slowest = (
        '[{"handler": "a", "queue": "q", "msg_id": 1, "seconds": 2, "ended_s": 10},'
        ' {"handler": "b", "log": "l", "group": "g", "ev_id": 2, "seconds": 60, "ended_s": 20}]'
    )
    connection.execute(
        "select sluice.report_worker('w', 'shop', 'h', 1, '1', '{}', 4, '1 hour', '[]', '{}', null, '[]', '[]', %s::jsonb)",
        (slowest,),
    )

    assert rows(
        connection,
        "select r.call - 'ended_at', reported_at - (r.call ->> 'ended_at')::timestamptz = "
        "case r.call ->> 'handler' when 'a' then interval '10 s' else interval '20 s' end "
        "from sluice.process_report, jsonb_array_elements(slowest) with ordinality as r (call, number) order by number",
    ) == [
        ({"handler": "b", "log": "l", "group": "g", "ev_id": 2, "seconds": 60}, True),
        ({"handler": "a", "queue": "q", "msg_id": 1, "seconds": 2}, True),
    ]


def test_session_that_is_not_there_is_not_stored(connection: psycopg.Connection):
    connection.execute(REPORT, ("w", "[]", "{}", 2147483647))

    assert value(connection, "select backend_pid from sluice.process_report") is None


def test_reports_leave_no_dead_rows_under_a_held_snapshot_and_are_truncated(
    connection: psycopg.Connection, database: Database
):
    """As many reports as 200 workers make in ten minutes; one worker has ended, and one is silent."""
    ids = [f"w{n:03}" for n in range(200)]
    counts = '{"a handler with a long name": {"done": 1234567}}'
    connection.execute(REPORT, ("ended", *IDLE))
    connection.execute("select sluice.end_worker('ended')")
    connection.execute(REPORT, ("silent", *IDLE))
    connection.execute(
        "update sluice.process_report set reported_at = now() - interval '25 hours' where process_id = 'silent'"
    )
    connection.execute("vacuum full sluice.process_report")
    sizes = []
    with database.connect(autocommit=False) as old:
        old.execute("set transaction isolation level repeatable read")
        old.execute("select 1")
        for _ in range(20):
            for worker_id in ids:
                connection.execute(REPORT, (worker_id, "[]", counts, None))
            sizes.append(value(connection, "select pg_table_size('sluice.process_report')"))
        connection.execute("vacuum sluice.process, sluice.process_report")
        connection.execute("select pg_stat_clear_snapshot()")
        dead = value(
            connection,
            "select sum(n_dead_tup) from pg_stat_user_tables where relname in ('process', 'process_report')",
        )
        removed = value(connection, f"select detail from {MAINTAIN}")

    assert dead == 0
    assert removed == "2 workers removed that have ended or were silent for a day"
    assert sorted(sizes) == sizes
    assert [
        row[0] for row in rows(connection, "select worker_id from sluice.list_workers()")
    ] == ids
    assert value(connection, "select count(*) from sluice.process_report") == len(ids)


def test_reports_are_truncated_when_they_need_much_space(connection: psycopg.Connection):
    for worker_id in ("w", "v"):
        connection.execute(REPORT, (worker_id, *IDLE))
    connection.execute(
        "insert into sluice.process_report (process_id, reported_at, running, counts) "
        "select 'w', now(), '[]', '{}' from generate_series(1, 30000)"
    )

    connection.execute(REPORT, ("w", "[]", '{"pack": {"done": 3}}', None))

    assert rows(connection, "select process_id, counts from sluice.process_report order by 1") == [
        ("v", {}),
        ("w", {"pack": {"done": 3}}),
    ]
    assert value(connection, "select count(*) from sluice.process") == 2


def test_reports_are_not_truncated_while_another_session_reads_them(
    connection: psycopg.Connection, database: Database
):
    connection.execute(REPORT, ("w", *IDLE))
    connection.execute(REPORT, ("ended", *IDLE))
    connection.execute("select sluice.end_worker('ended')")
    with database.connect(autocommit=False) as reader:
        reader.execute("select * from sluice.process_report")

        assert rows(connection, f"select * from {MAINTAIN}") == []
        connection.execute(REPORT, ("w", *IDLE))

    assert value(connection, "select count(*) from sluice.process_report") == 4


def test_report_fails_soon_while_the_table_is_locked(
    connection: psycopg.Connection, database: Database
):
    with database.connect(autocommit=False) as holder:
        holder.execute("lock table sluice.process_report in exclusive mode")

        with pytest.raises(psycopg.errors.LockNotAvailable):
            connection.execute(REPORT, ("w", *IDLE))


def test_readers_report_and_others_do_not(connection: psycopg.Connection, as_member):
    query = "select sluice.report_worker('w', 'a', 'h', 1, '1', '{}', null, '1 s')"

    for member_of in ("sluice_reader", "pgq_reader", "sluice_admin"):
        assert as_member(member_of, query) == [("",)]
    for member_of in ("sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)
