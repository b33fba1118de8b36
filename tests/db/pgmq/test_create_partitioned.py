"""Partitioned queues: their tables, all calls on them, and the partitions that a call touches.

Covers _create_partitioned_tables and _require_free_default.
"""

import psycopg
import pytest

from support import rows, value

TOUCHED = """
select relname::text, coalesce(seq_scan, 0), coalesce(idx_scan, 0)
from pg_stat_xact_user_tables
where schemaname = 'pgmq' and relname ~ '^q_orders' and coalesce(seq_scan, 0) + coalesce(idx_scan, 0) > 0
order by 1
"""


def leaves(connection, queue_name="orders", relation="queue"):
    return rows(
        connection,
        "select partition_name, starts_at, ends_at from sluice.list_partitions(%s) where relation = %s",
        queue_name,
        relation,
    )


def ids(connection, call):
    return [row[0] for row in rows(connection, f"select * from {call}")]


def flush_statistics(connection):
    """Forget the scans of earlier transactions, which the server keeps for up to a second."""
    connection.execute("select pg_stat_force_next_flush()")


def touched(connection, statement):
    """Return the partitions of `orders` that a statement scans: name, seq_scan and idx_scan."""
    flush_statistics(connection)
    with connection.transaction():
        connection.execute(statement)
        return rows(connection, TOUCHED)


def read_through(connection, statement):
    """Return the partitions of `orders` in which a statement scans over 500 rows sequentially."""
    flush_statistics(connection)
    with connection.transaction():
        connection.execute(statement)
        return rows(
            connection,
            "select relname, seq_tup_read from pg_stat_xact_user_tables "
            "where relname ~ '^q_orders' and seq_tup_read > 500",
        )


@pytest.fixture(params=["10", "1 hour"])
def orders(request, connection):
    """A queue of 250 messages: by id in 25 partitions, or by time in one."""
    retention = "1000000" if request.param == "10" else "1 year"
    connection.execute(
        "select pgmq.create_partitioned('orders', %s, %s, 30)", (request.param, retention)
    )
    connection.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[250]))")
    return connection


def test_current_and_premade_partitions_are_created_for_queue_and_archive(connection):
    connection.execute("select pgmq.create_partitioned('Orders', '100', '1000', 2)")

    assert leaves(connection) == [
        ("q_orders_P0", "0", "100"),
        ("q_orders_P100", "100", "200"),
        ("q_orders_P200", "200", "300"),
        ("q_orders_default", None, None),
    ]
    assert [name for name, *_ in leaves(connection, relation="archive")] == [
        "a_orders_P0",
        "a_orders_P100",
        "a_orders_P200",
        "a_orders_default",
    ]
    assert rows(connection, "select * from pgmq.list_queues()")[0][:3] == ("Orders", True, False)


@pytest.mark.parametrize(
    ("interval", "retention", "covers"),
    [("1 hour", "1 day", "1 hour"), ("7 days", "1 year", "7 days"), ("1 month", None, "1 month")],
)
def test_partitions_of_time_lie_on_a_grid_of_utc_whatever_the_time_zone(
    connection, interval, retention, covers
):
    connection.execute("set timezone = 'Australia/Lord_Howe'")
    connection.execute("set datestyle = 'German'")
    connection.execute("set intervalstyle = 'sql_standard'")

    connection.execute("select pgmq.create_partitioned('orders', %s, %s, 2)", (interval, retention))

    *ranges, default = leaves(connection)
    assert default == ("q_orders_default", None, None)
    connection.execute("set timezone = 'UTC'")
    for _, starts_at, ends_at in ranges:
        assert value(
            connection,
            "select %s::timestamptz + %s::interval = %s::timestamptz",
            starts_at,
            covers,
            ends_at,
        )
        assert starts_at.endswith(":00:00+00")
    assert len(ranges) == 3
    assert value(
        connection, "select now() between %s::timestamptz and %s", ranges[0][1], ranges[0][2]
    )
    connection.execute("select pgmq.send('orders', '1'::jsonb)")
    assert value(connection, "select tableoid::regclass::text from pgmq.q_orders") == (
        f'pgmq."{ranges[0][0]}"'
    )


def test_every_call_works_on_partitions_as_on_a_plain_table(orders):
    sent = ids(
        orders, "pgmq.send('orders', '{\"k\": 1}'::jsonb, '{\"x-pgmq-group\": \"g\"}'::jsonb)"
    )
    delayed = ids(orders, "pgmq.send('orders', '2'::jsonb, 600)")

    assert (sent, delayed) == ([251], [252])
    assert ids(orders, "pgmq.read('orders', 30, 12)") == list(range(1, 13))
    assert ids(orders, "pgmq.read('orders', 30, 9, '{\"k\": 1}')") == [251]
    assert ids(orders, "pgmq.pop('orders', 12)") == list(range(13, 25))
    assert ids(orders, "pgmq.set_vt('orders', array[251, 3], 0)") == [3, 251]
    assert ids(orders, "pgmq.read('orders', 30, 2)") == [3, 25]
    assert ids(orders, "pgmq.archive('orders', array[1, 11, 252, 999]::bigint[])") == [1, 11, 252]
    assert value(orders, "select pgmq.archive('orders', 2)") is True
    assert ids(orders, "pgmq.delete('orders', array[251, 30, 31, 32]::bigint[])") == [
        30,
        31,
        32,
        251,
    ]
    assert value(orders, "select pgmq.delete('orders', 251)") is False
    assert rows(orders, "select msg_id from pgmq.a_orders order by 1") == [
        (1,),
        (2,),
        (11,),
        (252,),
    ]
    assert value(orders, "select queue_length from pgmq.metrics('orders')") == 252 - 12 - 4 - 4
    assert value(orders, "select default_partition_length from pgmq.metrics('orders')") == 0
    assert value(orders, "select pgmq.purge_queue('orders')") == 232
    assert ids(orders, "pgmq.send('orders', '3'::jsonb)") == [253]


@pytest.mark.slow
def test_groups_topics_and_notifications_work_on_partitions(orders):
    orders.execute("select pgmq.purge_queue('orders')")
    orders.execute("select pgmq.create_fifo_index('orders')")
    orders.execute("select pgmq.bind_topic('a.#', 'orders')")
    orders.execute("select pgmq.enable_notify_insert('orders', 0)")
    orders.execute('listen "pgmq.q_orders.INSERT"')
    for group in "xyxxy":
        orders.execute(
            "select pgmq.send_topic('a.b', '1', jsonb_build_object('x-pgmq-group', %s::text), 0)",
            (group,),
        )

    assert ids(orders, "pgmq.read_grouped_rr('orders', 30, 3)") == [251, 252, 253]
    assert ids(orders, "pgmq.read_grouped_head('orders', 30, 9)") == []
    orders.execute("select pgmq.delete('orders', array[251, 252, 253]::bigint[])")
    assert ids(orders, "pgmq.read_grouped('orders', 30, 9)") == [254, 255]
    assert value(orders, "select pgmq._has_fifo_index('q_orders')") is True
    assert len(list(orders.notifies(timeout=5, stop_after=5))) == 5


def test_a_message_stays_in_its_partition_when_it_is_read(orders):
    where = "select tableoid::regclass::text from pgmq.q_orders where msg_id = 1"
    before = value(orders, where)

    orders.execute("select pgmq.read('orders', 30, 100)")

    assert value(orders, where) == before


@pytest.mark.slow
def test_by_ids_delete_and_archive_touch_the_one_partition_of_the_id(connection):
    connection.execute("select pgmq.create_partitioned('orders', '10', null, 120)")
    connection.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[1200]))")
    connection.execute("analyze pgmq.q_orders")

    for statement in (
        "select pgmq.delete('orders', 505)",
        "select pgmq.archive('orders', 506)",
        "select pgmq.delete('orders', array[507, 508]::bigint[])",
        "select pgmq.archive('orders', array[504, 503]::bigint[])",
        "select pgmq.set_vt('orders', 509, 5)",
    ):
        assert [name for name, *_ in touched(connection, statement)] == ["q_orders_P500"], statement


@pytest.mark.slow
def test_by_time_delete_and_archive_find_the_id_by_an_index_of_each_partition(connection):
    connection.execute("select pgmq.create_partitioned('orders', '1 hour', null, 100)")
    connection.execute(
        "insert into pgmq.q_orders (enqueued_at, vt, message) "
        "select date_trunc('hour', now()) + n * interval '3.6 s', now(), '1' from generate_series(0, 99999) as n"
    )
    connection.execute("analyze pgmq.q_orders")

    for statement in (
        "select pgmq.delete('orders', 50005)",
        "select pgmq.archive('orders', 50006)",
        "select pgmq.delete('orders', array[50007, 50008]::bigint[])",
    ):
        assert read_through(connection, statement) == [], statement


@pytest.mark.slow
@pytest.mark.parametrize("interval", ["2000", "1 hour"])
def test_read_of_many_partitions_scans_none_fully(connection, interval):
    connection.execute("select pgmq.create_partitioned('orders', %s, null, 50)", (interval,))
    connection.execute(
        "insert into pgmq.q_orders (enqueued_at, vt, message) "
        "select now() + n * interval '1.8 s', now(), '1' from generate_series(1, 100000) as n"
    )
    connection.execute("vacuum analyze pgmq.q_orders")

    for claim in ("read('orders', 30, 1)", "read('orders', 30, 100)", "pop('orders')"):
        assert read_through(connection, f"select * from pgmq.{claim}") == [], claim


def test_a_message_beyond_all_partitions_is_sent_and_counted(connection):
    connection.execute("select pgmq.create_partitioned('orders', '10', '1000', 1)")

    connection.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[50]))")

    assert value(connection, "select default_partition_length from pgmq.metrics('orders')") == 31
    assert value(connection, "select count(*) from pgmq.q_orders_default") == 31
    assert len(ids(connection, "pgmq.read('orders', 30, 100)")) == 50


def test_called_again_it_changes_the_settings_and_keeps_what_is_there(connection):
    connection.execute("select pgmq.create_partitioned('orders', '10', '100', 1)")
    connection.execute("select pgmq.send('orders', '1'::jsonb)")

    connection.execute("select pgmq.create_partitioned('orders', '1000', null, 2)")

    assert leaves(connection)[:4] == [
        ("q_orders_P0", "0", "10"),
        ("q_orders_P10", "10", "20"),
        ("q_orders_P20", "20", "1000"),
        ("q_orders_default", None, None),
    ]
    assert value(connection, "select count(*) from pgmq.q_orders") == 1
    assert rows(
        connection,
        "select distinct partition_interval, retention_interval, premake from sluice.partitioned_table",
    ) == [("1000", None, 2)]


@pytest.mark.parametrize(
    ("arguments", "sqlstate", "text"),
    [
        ("'10', '100', 0", "P0001", "premake must be at least 1, got 0"),
        ("'10', '100', null", "P0001", "premake must be at least 1, got <NULL>"),
        ("null", "22004", "partition_interval must not be null"),
        ("'0', '100'", "22023", "partitions of '0' with a retention of '100' cannot be made"),
        ("'-1 hour', '1 day'", "22023", "cannot be made"),
        ("'1 month 1 day', '1 year'", "22023", "cannot be made"),
        ("'10', '-1'", "22023", "cannot be made"),
        ("'1 hour', '-1 hour'", "22023", "cannot be made"),
        ("'10', '1 day'", "22P02", "invalid input syntax for type bigint"),
        ("'often'", "22007", "invalid input syntax for type interval"),
    ],
)
def test_settings_that_make_no_partitions_are_refused(connection, arguments, sqlstate, text):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(f"select pgmq.create_partitioned('orders', {arguments})")

    assert caught.value.sqlstate == sqlstate
    assert text in caught.value.diag.message_primary
    assert rows(connection, "select * from pgmq.list_queues()") == []


def test_a_queue_that_exists_otherwise_is_not_touched(connection):
    connection.execute("select pgmq.create('plain')")
    connection.execute("select pgmq.create_partitioned('ids')")

    for name, interval, retention in (("plain", "10", "100"), ("ids", "1 day", "9 days")):
        with pytest.raises(psycopg.errors.DuplicateTable, match=f"queue '{name}' exists"):
            connection.execute(
                "select pgmq.create_partitioned(%s, %s, %s)", (name, interval, retention)
            )
    connection.execute("select pgmq.create('ids')")
    assert value(connection, "select is_partitioned from pgmq.meta where queue_name = 'ids'")


def test_no_queue_can_have_the_table_of_a_partition(connection):
    connection.execute("select pgmq.create_partitioned('orders', '10', '100', 1)")
    connection.execute("select pgmq.create('bills_default')")

    for name in ("orders_default", "ORDERS_Default"):
        with pytest.raises(psycopg.DatabaseError) as caught:
            connection.execute("select pgmq.create(%s)", (name,))
        assert caught.value.sqlstate == "QU002"
    with pytest.raises(psycopg.DatabaseError) as caught:
        connection.execute("select pgmq.create_partitioned('bills')")
    assert caught.value.sqlstate == "QU002"
    connection.execute("select pgmq.create('orders_p20')")
    connection.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[15]))")
    connection.execute("select * from sluice.maintain()")
    assert ("q_orders_P20", "20", "30") in leaves(connection)
    assert value(connection, "select queue_length from pgmq.metrics('orders_p20')") == 0


def test_the_longest_name_has_partitions_too(connection):
    name = "n" * 47
    for interval in ("10", "1 hour"):
        connection.execute("select pgmq.create_partitioned(%s, %s, null, 3)", (name, interval))
        names = [leaf for leaf, *_ in leaves(connection, name)]
        assert len(names) == len(set(names)) == 5
        assert max(map(len, names)) <= 63
        connection.execute("select pgmq.drop_queue(%s)", (name,))


def test_drop_queue_takes_the_partitions_and_the_settings_along(orders):
    orders.execute("select pgmq.drop_queue('orders')")

    assert rows(orders, "select relname from pg_class where relname ~ '^[qa]_orders'") == []
    assert rows(orders, "select * from sluice.partitioned_table") == []


def test_a_role_with_the_grants_and_no_more_can_do_its_part(database, connection, role):
    connection.execute(f"grant sluice_admin to {role}")
    connection.execute("create role sender login in role sluice_writer")
    connection.execute("create role worker login in role sluice_reader")
    connection.execute("create role watcher login in role sluice_monitor")

    def act(user, statement):
        with psycopg.connect(database.url, user=user, autocommit=True) as session:
            return rows(session, statement)

    try:
        act(role, "select pgmq.create_partitioned('orders', '10', '30', 1)")
        assert act(
            "sender",
            "select count(*) from pgmq.send_batch('orders', array_fill('1'::jsonb, array[25]))",
        ) == [(25,)]
        assert len(act("worker", "select * from pgmq.read('orders', 30, 100)")) == 25
        assert act(
            "worker", "select count(*) from pgmq.archive('orders', array[1, 22]::bigint[])"
        ) == [(2,)]
        assert act(
            "watcher", "select queue_length, default_partition_length from pgmq.metrics('orders')"
        ) == [(23, 6)]
        assert len(act("watcher", "select * from sluice.list_partitions('orders')")) == 6
        steps = act(role, "select task, done, detail from sluice.maintain()")
        assert [step for step in steps if not step[1]] == []
        assert act("watcher", "select default_partition_length from pgmq.metrics('orders')") == [
            (0,)
        ]
        assert act(role, "select pgmq.drop_queue('orders')") == [(True,)]
    finally:
        for user in ("sender", "worker", "watcher"):
            connection.execute(f"drop role {user}")
        connection.execute(f"drop owned by {role}")
