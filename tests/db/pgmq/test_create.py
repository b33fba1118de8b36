import psycopg
import pytest

from support import rows, value


def test_create_makes_the_tables_indexes_and_row_that_pgmq_makes(connection):
    connection.execute("select pgmq.create('Orders')")

    columns = rows(
        connection,
        """select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull
           from pg_attribute as a join pg_class as c on c.oid = a.attrelid
           where c.relname in ('q_orders', 'a_orders') and a.attnum > 0 order by c.relname desc, a.attnum""",
    )
    assert columns == [
        ("q_orders", "msg_id", "bigint", True),
        ("q_orders", "read_ct", "integer", True),
        ("q_orders", "enqueued_at", "timestamp with time zone", True),
        ("q_orders", "last_read_at", "timestamp with time zone", False),
        ("q_orders", "vt", "timestamp with time zone", True),
        ("q_orders", "message", "jsonb", False),
        ("q_orders", "headers", "jsonb", False),
        ("a_orders", "msg_id", "bigint", True),
        ("a_orders", "read_ct", "integer", True),
        ("a_orders", "enqueued_at", "timestamp with time zone", True),
        ("a_orders", "last_read_at", "timestamp with time zone", False),
        ("a_orders", "archived_at", "timestamp with time zone", True),
        ("a_orders", "vt", "timestamp with time zone", True),
        ("a_orders", "message", "jsonb", False),
        ("a_orders", "headers", "jsonb", False),
    ]
    indexes = rows(
        connection,
        "select indexname from pg_indexes where schemaname = 'pgmq' and tablename like '_\\_orders' order by 1",
    )
    assert [name for (name,) in indexes] == [
        "a_orders_pkey",
        "archived_at_idx_Orders",
        "q_orders_pkey",
        "q_orders_ready_idx",
        "q_orders_vt_idx",
    ]
    assert rows(connection, "select queue_name, is_partitioned, is_unlogged from pgmq.meta") == [
        ("Orders", False, False)
    ]


def test_create_twice_keeps_the_messages(connection, queue):
    connection.execute("select pgmq.send('orders', '{}'::jsonb)")

    connection.execute("select pgmq.create('orders')")

    assert value(connection, "select count(*) from pgmq.q_orders") == 1
    assert value(connection, "select count(*) from pgmq.meta") == 1


def test_create_rolls_back_with_the_callers_transaction(connection):
    with connection.transaction(force_rollback=True):
        connection.execute("select pgmq.create('orders')")

    assert value(connection, "select to_regclass('pgmq.q_orders')") is None


@pytest.mark.parametrize(
    "name",
    [
        "my queue",
        "a.b",
        'quo"te',
        "with-hyphen",
        "größe",
        "キュー",
        "select",
        "1st",
        "x" * 47,
        "UPPER",
        "tab_q_",
    ],
)
def test_every_name_that_pgmq_accepts_works_from_create_to_drop(connection, name):
    connection.execute("select pgmq.create(%s)", (name,))
    msg_id = value(connection, "select pgmq.send(%s, '{\"n\": 1}'::jsonb)", name)

    assert [r[0] for r in rows(connection, "select * from pgmq.read(%s, 30, 1)", name)] == [msg_id]
    assert value(connection, "select pgmq.archive(%s, %s)", name, msg_id) is True
    assert value(connection, "select queue_length from pgmq.metrics(%s)", name) == 0
    assert value(connection, "select pgmq.drop_queue(%s)", name) is True
    assert value(connection, "select count(*) from pgmq.meta") == 0


def test_two_names_that_fold_to_one_table_are_refused_and_both_are_named(connection, queue):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgmq.create('Orders')")

    assert caught.value.sqlstate == "QU002"
    assert (
        caught.value.diag.message_primary
        == "queue 'Orders' would share its table with queue 'orders'"
    )
    assert "use queue 'orders'" in caught.value.diag.message_hint
    assert rows(connection, "select queue_name from pgmq.meta") == [("orders",)]


def test_a_creation_waits_for_another_of_the_same_table_and_then_sees_it(database, connection):
    with database.connect(autocommit=False) as first, database.connect() as second:
        first.execute("select pgmq.create('orders')")
        # Without a lock, the second would fail with a unique violation in the catalog.
        second.execute("set lock_timeout = '200ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            second.execute("select pgmq.create('Orders')")
        first.commit()
        with pytest.raises(psycopg.Error, match="would share its table with queue 'orders'"):
            second.execute("select pgmq.create('Orders')")
