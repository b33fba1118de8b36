"""sluice.maintain(): created, moved, dropped and abandoned partitions.

Covers _maintain_partitions and its steps: _drain_default_partition, _premake_partitions and
_drop_partitions, with _attach_partition, _create_default_partition, _manage_partitions and
_partition_now.
"""

import contextlib
import threading

import psycopg
import pytest

from support import rows, value, wait_for_lock


@pytest.fixture
def orders(connection):
    """A queue in partitions of ten messages with one premade, and a retention of 100 messages."""
    connection.execute("select pgmq.create_partitioned('orders', '10', '100', 1)")
    return connection


def send(connection, count, queue_name="orders"):
    connection.execute(
        "select pgmq.send_batch(%s, array_fill('1'::jsonb, array[%s]))", (queue_name, count)
    )


def maintain(connection):
    """Run maintenance until no work is left and return its steps; fail if a step is abandoned."""
    details = []
    while steps := rows(connection, "select task, queue_name, done, detail from sluice.maintain()"):
        assert all(done or task == "partitions" for task, _, done, _ in steps), steps
        details += [detail for *_, detail in steps]
    return details


def ranges(connection, relation="queue", queue_name="orders"):
    return [
        (starts_at, ends_at)
        for starts_at, ends_at in rows(
            connection,
            "select starts_at, ends_at from sluice.list_partitions(%s) where relation = %s and starts_at is not null",
            queue_name,
            relation,
        )
    ]


def messages(connection, queue_name="orders"):
    return [
        msg_id
        for (msg_id,) in rows(connection, f"select msg_id from pgmq.q_{queue_name} order by 1")
    ]


def in_default(connection):
    return value(
        connection,
        "select (select count(*) from pgmq.q_orders_default) + (select count(*) from pgmq.a_orders_default)",
    )


def test_maintain_without_work_reports_nothing(orders):
    orders.execute("select pgmq.create('plain')")

    assert rows(orders, "select * from sluice.maintain()") == []


def test_partitions_are_made_ahead_of_what_is_sent(orders):
    for _ in range(5):
        send(orders, 7)
        maintain(orders)
        assert in_default(orders) == 0

    assert ranges(orders) == [(str(n), str(n + 10)) for n in range(0, 50, 10)]
    assert messages(orders) == list(range(1, 36))


def test_a_few_rows_of_the_default_partition_are_moved_into_one_partition(orders):
    send(orders, 47)
    assert in_default(orders) == 28

    maintain(orders)

    assert in_default(orders) == 0
    assert messages(orders) == list(range(1, 48))
    assert ranges(orders) == [("0", "10"), ("10", "20"), ("20", "50"), ("50", "60")]


def test_many_rows_are_not_moved_but_their_partition_becomes_one_of_the_range(orders):
    send(orders, 6000)
    file_before = value(orders, "select pg_relation_filenode('pgmq.q_orders_default')")

    (detail,) = rows(
        orders, "select sluice._drain_default_partition('pgmq.q_orders', 'orders', '10')"
    )

    assert detail == ("the default partition became q_orders_P20: 20 to 6010",)
    assert value(orders, "select pg_relation_filenode('pgmq.\"q_orders_P20\"')") == file_before
    assert in_default(orders) == 0
    assert messages(orders) == list(range(1, 6001))
    send(orders, 5)
    orders.execute("select pgmq.set_vt('orders', 3000, 60)")
    assert value(orders, "select pgmq.delete('orders', 3001)") is True


def test_a_default_partition_of_many_thousands_does_not_stop_maintenance(orders):
    """PGMQ with pg_partman cannot recover from this state: see tests/compat/test_partitions.py."""
    orders.execute("update sluice.partitioned_table set retention_interval = null")
    for _ in range(3):
        send(orders, 20_000)
        maintain(orders)
        assert in_default(orders) == 0
        assert ranges(orders)[-1] == (
            str(value(orders, "select max(msg_id) / 10 * 10 + 10 from pgmq.q_orders")),
            str(value(orders, "select max(msg_id) / 10 * 10 + 20 from pgmq.q_orders")),
        )

    assert messages(orders) == list(range(1, 60_001))


def test_many_rows_around_other_partitions_are_moved_in_steps(orders):
    orders.execute("update sluice.partitioned_table set retention_interval = null")
    send(orders, 12_000)
    orders.execute("select sluice._attach_partition('pgmq.q_orders', 30, 40)")
    orders.execute("select sluice._attach_partition('pgmq.q_orders', 6000, 6010)")
    orders.execute("update sluice.partitioned_table set partition_interval = '100000'")

    details = maintain(orders)

    assert "q_orders_P40: 40 to 5040, with 5000 rows of the default partition" in details
    assert in_default(orders) == 0
    assert messages(orders) == list(range(1, 12_001))


@pytest.mark.parametrize("interval", ["10", "1 hour"])
def test_rows_that_no_partition_can_hold_stay_and_disturb_nothing(connection, interval):
    connection.execute("select pgmq.create_partitioned('orders', %s, null, 1)", (interval,))
    connection.execute(
        "insert into pgmq.q_orders (msg_id, enqueued_at, vt) overriding system value values "
        "(9223372036854775807, 'infinity', now()), (-9223372036854775808, '-infinity', now()), "
        "(4000000000000000000, now() + interval '9000 years', now()), (-5, '0044-03-15 BC', now())"
    )
    send(connection, 30)

    maintain(connection)
    assert in_default(connection) == 2
    assert len(messages(connection)) == 34

    send(connection, 6000)
    maintain(connection)
    assert in_default(connection) == 2
    assert value(connection, "select count(*) from pgmq.read('orders', 30, 9000)") == 6034


def test_retention_drops_what_is_wholly_behind_it_read_or_not(orders):
    send(orders, 25)
    maintain(orders)
    orders.execute("select pgmq.archive('orders', array[1, 2, 11, 12]::bigint[])")
    send(orders, 94)

    details = maintain(orders)

    assert "q_orders_P0, with messages whose retention was over" in details
    assert "a_orders_P0, with messages whose retention was over" in details
    assert messages(orders)[:3] == [10, 13, 14]
    assert rows(orders, "select msg_id from pgmq.a_orders order by 1") == [(11,), (12,)]


def test_a_retention_of_time_keeps_what_is_younger(connection):
    connection.execute("select pgmq.create_partitioned('orders', '1 hour', '5 hours', 1)")
    connection.execute("set role sluice_owner")
    for hours in range(1, 10):
        connection.execute(
            "select sluice._attach_partition('pgmq.q_orders', r.starts_at, r.ends_at) "
            "from sluice._partition_range(sluice._partition_position((now() - %s * interval '1 hour')::text, true), true, '1 hour') as r",
            (hours,),
        )
    connection.execute("reset role")
    connection.execute(
        "insert into pgmq.q_orders (enqueued_at, vt) "
        "select date_trunc('hour', now()) - n * interval '1 hour', now() from generate_series(0, 9) as n"
    )

    maintain(connection)

    assert value(connection, "select count(*) from pgmq.q_orders") == 6
    assert in_default(connection) == 0


def test_a_partition_of_the_queue_that_is_empty_and_over_is_dropped_before_its_time(orders):
    orders.execute("select pgmq.create_partitioned('orders', '10', '100', 4)")
    send(orders, 35)
    maintain(orders)
    orders.execute("select pgmq.archive('orders', array(select generate_series(1, 25))::bigint[])")

    details = maintain(orders)

    assert [detail for detail in details if detail.startswith("q_")] == [
        "q_orders_P0, which was empty",
        "q_orders_P10, which was empty",
    ]
    assert ranges(orders)[0] == ("20", "30")
    assert ranges(orders, "archive")[0] == ("0", "10")


def test_a_message_for_a_dropped_partition_is_sent_and_gets_one_again(orders):
    send(orders, 35)
    maintain(orders)
    orders.execute("select pgmq.delete('orders', array(select generate_series(1, 25))::bigint[])")
    maintain(orders)

    orders.execute(
        "insert into pgmq.q_orders (msg_id, vt) overriding system value values (5, now())"
    )

    assert in_default(orders) == 1
    maintain(orders)
    assert in_default(orders) == 0
    assert messages(orders)[0] == 5


@pytest.mark.slow
def test_one_call_drops_ten_partitions_at_most(orders):
    orders.execute("select pgmq.create_partitioned('orders', '10', null, 30)")
    send(orders, 300)
    orders.execute("select pgmq.delete('orders', array(select generate_series(1, 300))::bigint[])")

    dropped = "select count(*) from sluice.maintain() where task = 'drop partitions'"
    assert [value(orders, dropped) for _ in range(4)] == [10, 10, 10, 0]


def test_objects_in_use_are_left_to_a_later_call(database, orders):
    send(orders, 15)
    orders.execute("select pgmq.delete('orders', array(select generate_series(1, 10))::bigint[])")
    with database.connect(autocommit=False) as sender:
        sender.execute("select pgmq.send('orders', '1'::jsonb)")

        steps = rows(orders, "select task, done, detail from sluice.maintain()")

        assert ("create partitions", True, "a_orders_P20: 20 to 30") in steps
        assert [step for step in steps if not step[1]] == [
            ("create partitions", False, "q_orders is in use; the next call tries again"),
            ("drop partitions", False, "q_orders is in use; the next call tries again"),
        ]
        sender.commit()
    assert maintain(orders) == ["q_orders_P20: 20 to 30", "q_orders_P0, which was empty"]


def test_by_time_a_sender_that_has_not_committed_keeps_no_partition_from_being_made(
    database, connection
):
    connection.execute("select pgmq.create_partitioned('orders', '1 hour', null, 1)")
    connection.execute("update sluice.partitioned_table set premake = 2")
    with database.connect(autocommit=False) as sender:
        sender.execute("select pgmq.send('orders', '1'::jsonb)")

        assert len(maintain(connection)) == 2


def test_a_message_on_its_way_into_the_default_partition_is_not_refused(database, orders):
    """With a weaker lock, the waiting insert would fail with "violates partition constraint"."""
    send(orders, 19)
    sent = []
    with database.connect(autocommit=False) as maintainer, database.connect() as sender:
        maintainer.execute("lock table pgmq.q_orders_default in access exclusive mode")
        thread = threading.Thread(
            target=lambda: sent.extend(rows(sender, "select pgmq.send('orders', '1'::jsonb)"))
        )
        thread.start()
        wait_for_lock(orders, sender)

        maintainer.execute("set local lock_timeout = '100ms'")
        with contextlib.suppress(psycopg.errors.LockNotAvailable):
            maintainer.execute("select sluice._attach_partition('pgmq.q_orders', 20, 30)")
        maintainer.commit()
        thread.join(30)

    assert sent == [(20,)]


def test_one_broken_table_does_not_keep_the_others_from_theirs(orders):
    orders.execute("select pgmq.create_partitioned('broken', '10', '100', 1)")
    orders.execute("drop table pgmq.q_broken")
    orders.execute("alter table pgmq.a_broken detach partition pgmq.a_broken_default")
    send(orders, 15)

    steps = rows(orders, "select queue_name, done, detail from sluice.maintain()")

    assert {step for step in steps if not step[1]} == {
        ("broken", False, "q_broken is not there, or has no default partition"),
        ("broken", False, "a_broken is not there, or has no default partition"),
    }
    assert ("orders", True, "q_orders_P20: 20 to 30") in steps


def test_members_of_sluice_admin_maintain_the_partitions_of_every_queue(database, orders, role):
    orders.execute(f"grant sluice_admin to {role}")
    send(orders, 15)

    with psycopg.connect(database.url, user=role, autocommit=True) as other:
        steps = rows(other, "select distinct done from sluice.maintain()")

    assert steps == [(True,)]


def test_partitions_belong_to_the_owner_of_the_schemas(database, connection, role):
    connection.execute(f"grant sluice_admin to {role}")
    with psycopg.connect(database.url, user=role, autocommit=True) as creator:
        creator.execute("select pgmq.create_partitioned('orders', '10', '100', 1)")
    send(connection, 6000)

    maintain(connection)

    owners = "select distinct pg_get_userbyid(relowner) from pg_class where relname ~ '^[qa]_orders' and relkind in ('r', 'p', 'S')"
    assert rows(connection, owners) == [("sluice_owner",)]


def test_a_name_that_is_taken_is_not_in_the_way(orders):
    orders.execute('create table pgmq."q_orders_P20" (n int)')
    send(orders, 15)

    maintain(orders)

    assert value(orders, "select sluice._partition_name('q_orders', 20, false)") == "q_orders_P20_3"
    assert ranges(orders)[-1] == ("20", "30")


def test_columns_indexes_and_triggers_of_users_come_with_a_new_partition(orders):
    orders.execute("alter table pgmq.q_orders add tenant text not null default 'none'")
    orders.execute(
        "alter table pgmq.q_orders add twice bigint generated always as (read_ct * 2) stored"
    )
    orders.execute("create index orders_tenant_idx on pgmq.q_orders (tenant)")
    orders.execute("update sluice.partitioned_table set retention_interval = null")
    send(orders, 25)

    maintain(orders)
    send(orders, 6000)
    maintain(orders)

    assert in_default(orders) == 0
    assert (
        value(orders, "select count(*) from pgmq.q_orders where tenant = 'none' and twice = 0")
        == 6025
    )
    assert value(
        orders,
        "select count(*) from pg_inherits where inhparent = 'pgmq.orders_tenant_idx'::regclass",
    ) == value(
        orders, "select count(*) from pg_inherits where inhparent = 'pgmq.q_orders'::regclass"
    )


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_transaction_with_an_old_snapshot_is_refused(database, orders, level):
    with database.connect(autocommit=False) as session:
        session.execute(f"set transaction isolation level {level}")
        with pytest.raises(psycopg.errors.ActiveSqlTransaction, match=level):
            session.execute("select * from sluice.maintain()")


def test_the_settings_of_the_session_are_as_before(orders):
    orders.execute("set lock_timeout = '7s'")
    orders.execute("set timezone = 'Asia/Tokyo'")
    send(orders, 15)

    maintain(orders)

    assert value(orders, "show lock_timeout") == "7s"
    assert value(orders, "show timezone") == "Asia/Tokyo"
