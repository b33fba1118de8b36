from support import rows, value


def test_it_shows_bounds_rows_and_bytes_of_queue_and_archive_the_default_one_last(connection):
    connection.execute("select pgmq.create_partitioned('orders', '10', '100', 1)")
    connection.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[12]))")
    connection.execute("analyze pgmq.q_orders")

    shown = rows(connection, "select * from sluice.list_partitions('orders')")

    assert [row[:5] for row in shown] == [
        ("queue", "q_orders_P0", "0", "10", 9),
        ("queue", "q_orders_P10", "10", "20", 3),
        ("queue", "q_orders_default", None, None, 0),
        ("archive", "a_orders_P0", "0", "10", None),
        ("archive", "a_orders_P10", "10", "20", None),
        ("archive", "a_orders_default", None, None, None),
    ]
    assert all(row[5] > 0 for row in shown)


def test_unpartitioned_and_missing_tables_list_no_partitions(connection):
    connection.execute("select pgmq.create('plain')")

    for name in ("plain", "nope"):
        assert rows(connection, "select * from sluice.list_partitions(%s)", name) == []


def test_a_table_partitioned_otherwise_has_no_key_and_is_left_out(connection):
    connection.execute("create table pgmq.q_odd (msg_id bigint, x int) partition by hash (msg_id)")

    assert rows(connection, "select * from sluice.list_partitions('odd')") == []
    assert value(connection, "select (sluice._partition_key('pgmq.q_odd')).key_name") is None
