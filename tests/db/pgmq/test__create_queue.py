import psycopg
import pytest

from support import rows, value

IDS = "select relpersistence from pg_class where relname = 'q_orders_msg_id_seq'"


def make_crashed_pgmq_queue(connection):
    """Create an unlogged queue as PGMQ leaves it after a crash, with ids below its archive's."""
    connection.execute("select pgmq._create_queue('orders', true)")
    connection.execute("alter sequence pgmq.q_orders_msg_id_seq set unlogged")
    connection.execute("select pgmq.send_batch('orders', array['1', '2', '3']::jsonb[])")
    connection.execute("select pgmq.archive('orders', array[2, 3]::bigint[])")
    connection.execute("alter sequence pgmq.q_orders_msg_id_seq restart")
    connection.execute("truncate pgmq.q_orders")
    connection.execute("select pgmq.send_batch('orders', array['\"a\"', '\"b\"']::jsonb[])")
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute("select pgmq.archive('orders', 2)")


def test_the_kind_of_a_queue_decides_what_is_logged_and_never_its_ids_and_archive(connection):
    for name, is_unlogged in (("plain", False), ("fast", True)):
        connection.execute("select pgmq._create_queue(%s, %s)", (name, is_unlogged))

    persistence = rows(
        connection,
        "select relname, relpersistence from pg_class "
        "where relname ~ '^[qa]_(plain|fast)(_msg_id_seq)?$' order by 1",
    )
    assert persistence == [
        ("a_fast", "p"),
        ("a_plain", "p"),
        ("q_fast", "u"),
        ("q_fast_msg_id_seq", "p"),
        ("q_plain", "p"),
        ("q_plain_msg_id_seq", "p"),
    ]
    assert rows(connection, "select queue_name, is_unlogged from pgmq.list_queues()") == [
        ("fast", True),
        ("plain", False),
    ]


def test_ids_that_fell_behind_the_archive_are_moved_above_it_and_no_message_is_lost(connection):
    make_crashed_pgmq_queue(connection)

    connection.execute("select pgmq._create_queue('orders', true)")

    assert value(connection, IDS) == "p"
    assert rows(connection, "select msg_id, message from pgmq.read('orders', 0, 9)") == [
        (1, "a"),
        (4, "b"),
    ]
    assert rows(connection, "select pgmq.send('orders', '\"c\"'::jsonb)") == [(5,)]
    assert rows(connection, "select pgmq.archive('orders', array[1, 4, 5]::bigint[])") == [
        (1,),
        (4,),
        (5,),
    ]
    assert rows(connection, "select msg_id, message from pgmq.a_orders order by 1") == [
        (1, "a"),
        (2, 2),
        (3, 3),
        (4, "b"),
        (5, "c"),
    ]


def test_ids_that_are_ahead_of_the_archive_stay_where_they_are(connection):
    connection.execute("select pgmq._create_queue('orders', true)")
    connection.execute("alter sequence pgmq.q_orders_msg_id_seq set unlogged")
    connection.execute("select pgmq.send_batch('orders', array['1', '2', '3']::jsonb[])")
    connection.execute("select pgmq.archive('orders', 1)")

    connection.execute("select pgmq._create_queue('orders', true)")

    assert value(connection, IDS) == "p"
    assert rows(connection, "select msg_id from pgmq.q_orders order by 1") == [(2,), (3,)]
    assert value(connection, "select pgmq.send('orders', '4'::jsonb)") == 4
