"""Adoption of queues partitioned by pg_partman, which continues to manage their partitions."""

from __future__ import annotations

import pytest

from pgsluice import schema
from support import rows, value
from support.adopt import contents
from support.pgmq import upstream_sql
from support.replication import tables_without_identity


@pytest.fixture
def partman(empty_database):
    """A session in a database with PGMQ, pg_partman, and queues partitioned by id and by time."""
    with empty_database.connect() as connection:
        if not rows(connection, "select from pg_available_extensions where name = 'pg_partman'"):
            pytest.skip("pg_partman is not installed on this server")
        connection.execute("create schema partman; create extension pg_partman schema partman")
        connection.execute(upstream_sql())
        connection.execute(
            """select pgmq.create_partitioned('by_id', '100', '100000');
            select pgmq.create_partitioned('by_time', '1 day', '7 days');
            select pgmq.send_batch('by_id', array(select to_jsonb(n) from generate_series(1, 350) as n));
            select pgmq.send_batch('by_time', array(select to_jsonb(n) from generate_series(1, 50) as n));
            select pgmq.read('by_id', 3600, 20);
            select pgmq.archive('by_id', array[1, 2, 101]);
            select pgmq.archive('by_time', array[1, 2])"""
        )
        yield connection


def partitions(connection, queue):
    return value(
        connection, f"select count(*) from pg_partition_tree('pgmq.q_{queue}') where isleaf"
    )


@pytest.mark.slow
def test_partitioned_queues_stay_and_are_read_sent_to_and_archived(partman):
    before = contents(partman)
    assert before["q_by_id"][2] == 347

    steps = schema.adopt(partman)

    assert contents(partman) == before
    assert schema.verify(partman) == ()
    for queue, sent, first in (("by_id", 351, 21), ("by_time", 51, 3)):
        assert (
            f"leave the partitions of queue '{queue}' to pg_partman: keep its maintenance running"
            in steps
        )
        assert value(partman, f"select pgmq.send('{queue}', '1'::jsonb)") == sent
        assert rows(partman, f"select msg_id from pgmq.read('{queue}', 9, 1)") == [(first,)]
        assert rows(partman, f"select pgmq.archive('{queue}', array[{first}])") == [(first,)]
        assert value(partman, f"select pgmq.delete('{queue}', {first + 1})") is True
        assert rows(partman, f"select msg_id from pgmq.pop('{queue}')") == [(first + 2,)]
    assert rows(partman, "select queue_name, is_partitioned from pgmq.list_queues()") == [
        ("by_id", True),
        ("by_time", True),
    ]


def test_pg_partman_goes_on_making_partitions_and_they_have_our_indexes(partman):
    schema.adopt(partman)
    before = partitions(partman, "by_id")

    partman.execute(
        "select pgmq.send_batch('by_id', array(select to_jsonb(n) from generate_series(1, 100) as n))"
    )
    partman.execute("select partman.run_maintenance()")

    assert partitions(partman, "by_id") > before
    assert (
        value(
            partman,
            """select count(*) from pg_partition_tree('pgmq.q_by_id') as t
            where t.isleaf and (
                select count(*) from pg_index as i where i.indrelid = t.relid and i.indpred is not null
            ) <> 2""",
        )
        == 0
    )


def test_an_adopted_partitioned_queue_can_be_dropped(partman):
    schema.adopt(partman)

    assert value(partman, "select pgmq.drop_queue('by_id')") is True

    assert value(partman, "select to_regclass('pgmq.q_by_id')") is None


def test_partitions_that_have_no_primary_key_get_a_replica_identity(partman):
    schema.adopt(partman)

    assert tables_without_identity(partman) == []
