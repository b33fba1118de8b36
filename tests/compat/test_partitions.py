"""Partitioned queues: the same calls on PGMQ with pg_partman and on pgsluice have equal results.

Runs where PostgreSQL 15 has pg_partman 4: Debian's postgresql-15-partman.
"""

from __future__ import annotations

import psycopg
import pytest

from compat.test_behaviour import RelativeLoader, outcome
from support import rows, value

SCENARIOS: dict[str, list[str]] = {
    "by ids": [
        "select * from pgmq.create_partitioned('p1', '10', '100')",
        "select * from pgmq.create_partitioned(queue_name => 'P2', partition_interval => '5', "
        "retention_interval => '50', premake => 2)",
        "select * from pgmq.create_partitioned('p3')",
        "select * from pgmq.list_queues()",
        "select * from pgmq.send_batch('p1', array_fill('1'::jsonb, array[25]))",
        "select * from pgmq.send('P2', '{\"k\": 1}'::jsonb)",
        "select * from pgmq.send('p1', '2'::jsonb, 600)",
        "select * from pgmq.read('p1', 600, 3)",
        "select * from pgmq.read('P2', 0, 3, '{\"k\": 1}')",
        "select * from pgmq.pop('p1', 1)",
        "select * from pgmq.delete('p1', 5)",
        "select * from pgmq.delete('p1', 5)",
        "select * from pgmq.delete('p1', array[6, 16, 99]::bigint[])",
        "select * from pgmq.archive('p1', 7)",
        "select * from pgmq.archive('p1', array[8, 18, 99]::bigint[])",
        "select * from pgmq.a_p1 order by msg_id",
        "select * from pgmq.set_vt('p1', 9, 60)",
        "select msg_id from pgmq.read_grouped('p1', 600, 1)",
        "select queue_name, queue_length, total_messages, queue_visible_length from pgmq.metrics('p1')",
        "select default_partition_length from pgmq.metrics('p1')",
        "select * from pgmq.purge_queue('p1')",
        "select * from pgmq.send('p1', '3'::jsonb)",
        "select * from pgmq.drop_queue('p1')",
        "select * from pgmq.drop_queue('P2')",
        "select relname from pg_class where relname ~ '^[qa]_p[12]'",
    ],
    "by time": [
        "select * from pgmq.create_partitioned('t1', '1 day', '7 days')",
        "select * from pgmq.send_batch('t1', array['1', '2', '3', '4']::jsonb[])",
        "select * from pgmq.read('t1', 600, 1)",
        "select * from pgmq.delete('t1', 2)",
        "select * from pgmq.archive('t1', 3)",
        "select * from pgmq.a_t1 order by msg_id",
        "select default_partition_length from pgmq.metrics('t1')",
        "select * from pgmq.drop_queue('t1')",
    ],
    "errors": [
        "select * from pgmq.create_partitioned('e1', '10', '100', 0)",
        "select * from pgmq.create_partitioned('e1', '10', '100', -7)",
        "select * from pgmq.create_partitioned('a;b')",
        f"select * from pgmq.create_partitioned('{'n' * 48}')",
        "select * from pgmq.create_partitioned(null)",
        "select * from pgmq.convert_archive_partitioned('nope')",
        "select * from pgmq.convert_archive_partitioned('a;b')",
        "select * from pgmq.list_queues()",
    ],
    "convert": [
        "select * from pgmq.create('c1')",
        "select * from pgmq.send_batch('c1', array['1', '2', '3']::jsonb[])",
        "select * from pgmq.archive('c1', 1)",
        "select * from pgmq.convert_archive_partitioned('c1')",
        "select * from pgmq.convert_archive_partitioned(table_name => 'c1', partition_interval => '10', "
        "retention_interval => '100', leading_partition => 3)",
        "select msg_id from pgmq.a_c1",
        "select * from pgmq.archive('c1', 2)",
        "select is_partitioned from pgmq.list_queues() where queue_name = 'c1'",
        "select * from pgmq.drop_queue('c1')",
        "select relname from pg_class where relname ~ '^[qa]_c1'",
    ],
}
# Statement → why our result differs.
DIFFERENCES = {
    "select msg_id from pgmq.a_c1": "ours keeps what the archive held, PGMQ leaves it in another table",
    "select relname from pg_class where relname ~ '^[qa]_c1'": (
        "PGMQ leaves the table of the old archive behind when the queue is dropped"
    ),
}


@pytest.fixture(scope="module")
def both(server, upstream_sql):
    """Sessions with pgsluice and with PGMQ and pg_partman, in two databases of one server."""
    name = f"partitions_{server.version}"
    sessions = []
    with psycopg.connect(server.url(), autocommit=True) as connection:
        if not rows(
            connection,
            "select from pg_available_extension_versions where name = 'pg_partman' and version like '4.%%'",
        ):
            pytest.skip("this server has no pg_partman 4: apt-get install postgresql-15-partman")
        connection.execute(f"create database {name}_ours template sluice_template")
        connection.execute(f"create database {name}_theirs template template0")
        for system in ("ours", "theirs"):
            session = psycopg.connect(server.url(f"{name}_{system}"), autocommit=True)
            session.adapters.register_loader("timestamptz", RelativeLoader)
            sessions.append(session)
        sessions[1].execute(upstream_sql)
        sessions[1].execute("create schema partman")
        sessions[1].execute("create extension pg_partman schema partman")
        for session in sessions:
            session.execute("set client_min_messages = notice")
        yield tuple(sessions)
        for session in sessions:
            session.close()
        for system in ("ours", "theirs"):
            connection.execute(f"drop database {name}_{system} with (force)")


@pytest.mark.parametrize("name", SCENARIOS)
def test_ours_answers_as_pgmq_does(both, name):
    unlike = []

    for statement in SCENARIOS[name]:
        mine, theirs = (outcome(connection, statement) for connection in both)
        if (mine != theirs) != (statement in DIFFERENCES):
            unlike.append(f"{statement}\n    ours: {mine}\n    PGMQ: {theirs}")

    assert not unlike, "\n".join(unlike)


def test_an_overflow_stops_maintenance_there_and_not_here(both):
    ours, theirs = both
    for connection in both:
        connection.execute("select pgmq.create_partitioned('late', '100', '1000000', 1)")
        connection.execute("select pgmq.send_batch('late', array_fill('1'::jsonb, array[9000]))")

    for _ in range(2):
        with pytest.raises(psycopg.errors.RaiseException, match="default partition"):
            theirs.execute("select partman.run_maintenance('pgmq.q_late')")
    while rows(ours, "select * from sluice.maintain()"):
        pass

    held = "select count(*) from pgmq.q_late_default"
    assert (value(ours, held), value(theirs, held)) == (0, 8801)
    assert value(ours, "select count(*) from pgmq.q_late") == 9000
