"""`sluice.take_samples`, with _store_samples, _sample_slot, _hold_samples,
_maintain_samples and _log_state."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from support import rows, value
from support.servers import Database

TAKE = "select sluice.take_samples()"
AGAIN = "select setval('sluice.sample_turn', 1)"
AT = datetime(2026, 1, 1, tzinfo=UTC)
TABLES = "select s.slot, count(*), min(s.taken_at) from sluice.sample as s group by s.slot order by s.slot"


def store(
    connection: psycopg.Connection, at: datetime, ready: int, sent: int = 0, name: str = "q"
) -> None:
    """Store a sample of a queue as if taken at a time."""
    connection.execute(
        "select sluice._store_samples(array[row('queue', %s::text, '', 9, %s::bigint, 0, 0, 1.5, %s::bigint, 0, 0, null, "
        "null, null, null)::sluice.sample_figures], 0, %s)",
        (name, ready, sent, at),
    )


def test_queues_consumers_and_groups_are_sampled(
    orders: psycopg.Connection, group: str, log: psycopg.Connection
):
    log.execute("select pgq.register_consumer_at('log', 'c', 2)")
    orders.execute("select pgq.insert_event('changes', 't', n::text) from generate_series(1, 4) n")
    orders.execute("select sluice.claim('changes', 'workers', 3)")

    assert value(orders, TAKE) == 4
    assert rows(
        orders,
        "select length, ready, in_flight, retrying, delayed, oldest_ready_s >= 0, sent, finished, dead "
        "from sluice.list_samples('queue', 'ORDERS')",
    ) == [(4, 2, 1, 0, 1, True, 9, 5, 1)]
    assert rows(
        orders,
        "select reader, lag_events, lag_s > 0, pinned_bytes, sent, finished "
        "from sluice.list_samples('consumer', 'log')",
    ) == [("c", 30, True, 0, 40, 10)]
    assert rows(
        orders,
        "select reader, lag_events, in_flight, retrying, dead from sluice.list_samples('group', 'changes')",
    ) == [("workers", 1, 3, 0, 0)]


ALL = "select length, ready, in_flight, delayed, retrying, sent, finished, dead from sluice.list_samples('queues', '')"


def test_all_queues_together_are_sampled_with_the_newest_figures_of_each(
    orders: psycopg.Connection,
):
    orders.execute("select pgmq.send_batch('again', array['1', '2']::jsonb[])")
    orders.execute(TAKE)
    orders.execute("select pgq.create_queue('changes')")
    assert rows(orders, ALL) == [(6, 4, 1, 1, 0, 11, 5, 1)]
    assert value(orders, "select oldest_ready_s > 0 from sluice.list_samples('queues', '')")

    # A queue that this call cannot sample counts with its newest figures.
    orders.execute("alter table pgmq.q_again rename to away")
    orders.execute("select pgmq.send('orders', '3')")
    orders.execute(AGAIN)
    assert value(orders, TAKE) == 1
    assert [row[0] for row in rows(orders, ALL)] == [6, 7]


def test_calls_that_sample_a_part_each_sample_all_queues_once_a_round(
    connection: psycopg.Connection,
):
    connection.execute("select pgmq.create('q' || n) from generate_series(1, 4) as n")
    connection.execute("select setval('sluice.sample_cursor', 2)")
    connection.execute("select sluice.take_samples('0')")
    assert rows(connection, ALL) == []
    connection.execute(AGAIN)
    connection.execute(TAKE)
    assert len(rows(connection, ALL)) == 1


def test_a_database_without_queues_has_no_sample_of_all(connection: psycopg.Connection):
    connection.execute(TAKE)

    assert rows(connection, ALL) == []


def test_a_second_call_within_five_seconds_takes_no_samples(orders: psycopg.Connection):
    assert value(orders, TAKE) == 2
    assert value(orders, TAKE) == 0
    orders.execute(AGAIN)
    assert value(orders, TAKE) == 2


def test_only_one_session_takes_samples(orders: psycopg.Connection, database: Database):
    with database.connect(autocommit=False) as other:
        assert value(other, TAKE) == 2
        orders.execute(AGAIN)

        assert value(orders, TAKE) == 0
        other.commit()
        assert value(orders, TAKE) == 2


def test_a_broken_queue_does_not_hide_the_others(orders: psycopg.Connection):
    orders.execute("drop table pgmq.q_orders")

    assert value(orders, TAKE) == 1


def test_calls_continue_where_the_budget_of_the_previous_one_ended(connection: psycopg.Connection):
    connection.execute("select pgmq.create('q' || n) from generate_series(1, 5) as n")
    for _ in range(5):
        assert value(connection, "select sluice.take_samples('0')") == 0
        connection.execute(AGAIN)
    # One call samples at least none, and never more than its budget allows; two without a limit sample all.
    assert value(connection, TAKE) == 5
    connection.execute("select setval('sluice.sample_cursor', 3)")
    connection.execute(AGAIN)
    assert value(connection, TAKE) == 5
    assert value(connection, "select last_value from sluice.sample_cursor") == 0


def test_samples_of_a_minute_have_the_highest_gauges_and_the_last_counters(
    connection: psycopg.Connection,
):
    for n in range(100):  # 16 minutes and 40 seconds
        store(connection, AT + timedelta(seconds=10 * n), ready=n % 6, sent=n)

    found = rows(
        connection,
        "select s.slot, s.taken_at - %s, s.ready, s.sent from sluice.sample as s where s.slot >= 3 "
        "order by s.slot, s.taken_at",
        AT,
    )

    minutes = [row for row in found if row[0] < 6]
    assert [row[1].total_seconds() for row in minutes] == [60 * n for n in range(17)]
    assert [(row[2], row[3]) for row in minutes[1:]] == [(5, 6 * n) for n in range(1, 17)]
    quarters = [row for row in found if row[0] >= 6]
    assert [(row[1].total_seconds(), row[2], row[3]) for row in quarters] == [
        (0, 0, 0),
        (900, 5, 90),
    ]


@pytest.mark.slow
def test_old_samples_are_truncated_and_an_hour_a_day_and_a_month_are_kept(
    connection: psycopg.Connection,
):
    for minutes in range(0, 60 * 24 * 100, 97):
        store(connection, AT + timedelta(minutes=minutes), ready=1)
        last = AT + timedelta(minutes=minutes)

    found = rows(connection, TABLES)
    oldest = {
        resolution: min(at for slot, _, at in found if slot // 3 == resolution)
        for resolution in range(3)
    }
    assert timedelta(days=30) <= last - oldest[2] <= timedelta(days=45, hours=2)
    assert timedelta(days=1) - timedelta(hours=2) <= last - oldest[1] <= timedelta(days=1.5)


def test_samples_continue_while_a_session_reads_the_table_to_be_truncated(
    connection: psycopg.Connection, database: Database
):
    store(connection, AT, ready=1)
    slot = value(connection, "select min(slot) from sluice.sample")
    with database.connect(autocommit=False) as reader:
        reader.execute(f"select from sluice.sample_{slot}")
        later = AT + timedelta(minutes=90)
        store(connection, later, ready=2)

        assert value(connection, "select max(taken_at) from sluice.sample where slot < 3") == later
    store(connection, later + timedelta(seconds=10), ready=3)
    assert value(connection, "select count(*) from sluice.sample where ready = 1 and slot < 3") == 0


def test_a_held_snapshot_keeps_no_dead_rows(connection: psycopg.Connection, database: Database):
    with database.connect(autocommit=False) as old:
        old.execute("set transaction isolation level repeatable read")
        old.execute("select 1")
        for minutes in range(0, 60 * 6, 3):
            store(connection, AT + timedelta(minutes=minutes), ready=1)
        connection.execute("select pg_stat_force_next_flush()")

        dead = rows(
            connection,
            "select relname, n_dead_tup from pg_stat_user_tables "
            "where schemaname = 'sluice' and relname like 'sample%' and (n_dead_tup > 0 or n_tup_upd + n_tup_del > 0)",
        )
        size = value(
            connection,
            "select sum(pg_relation_size(oid)) from pg_class where relname ~ '^sample_[0-2]$'",
        )

    assert dead == []
    # Two hours of 120 rows.
    assert 20 <= value(connection, "select count(*) from sluice.sample where slot < 3") <= 30
    assert size <= 3 * 8192


def test_maintenance_takes_samples_and_reports_a_failure(orders: psycopg.Connection):
    assert rows(orders, "select * from sluice.maintain()") == []
    assert value(orders, "select count(*) from sluice.sample where slot < 3") == 2 + 1

    orders.execute("alter table sluice.sample rename to away")
    orders.execute(AGAIN)
    failed = rows(orders, "select task, done from sluice.maintain()")
    assert failed == [("samples", False)]
    orders.execute("alter table sluice.away rename to sample")


def test_sampling_needs_sluice_admin_and_reading_sluice_monitor(
    orders: psycopg.Connection, as_member
):
    assert as_member("sluice_admin", TAKE) == [(2,)]
    orders.execute(AGAIN)
    orders.execute(TAKE)
    assert as_member(
        "sluice_monitor", "select ready from sluice.list_samples('queue', 'orders')"
    ) == [(2,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_monitor", TAKE)


@pytest.mark.slow
def test_thousand_queues_are_sampled_at_a_bounded_cost(connection: psycopg.Connection):
    connection.execute("select pgmq.create('q' || n) from generate_series(1, 1000) as n")
    connection.execute("select pgmq.send('q' || n, '1') from generate_series(1, 1000) as n")
    connection.execute(TAKE)  # reads the catalog
    taken, times = 0, []
    while taken < 1000:
        connection.execute(AGAIN)
        began_s = time.perf_counter()
        taken += value(connection, TAKE)
        times.append(time.perf_counter() - began_s)
    size = value(
        connection,
        "select sum(pg_total_relation_size(oid)) from pg_class where relname ~ '^sample_[012]$'",
    )
    count = value(connection, "select count(*) from sluice.sample where slot < 3")

    print(
        f"1,000 queues: {len(times)} calls of {1000 * max(times):.0f} ms at most, {1000 * sum(times) / taken:.2f} ms "
        f"and {size / count:.0f} bytes per sample"
    )
    assert max(times) < 2
    assert (
        value(connection, "select count(distinct source_id) from sluice.sample where slot < 3")
        == 1000 + 1  # all queues together
    )
