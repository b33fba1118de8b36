import pytest

from support import rows, value

LENGTH = "select default_partition_length from pgmq.metrics('orders')"


@pytest.fixture
def orders(connection):
    connection.execute("select pgmq.create_partitioned('orders', '10', null, 1)")
    return connection


def test_it_counts_queue_and_archive_together(orders):
    assert value(orders, LENGTH) == 0

    orders.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[50]))")
    assert value(orders, LENGTH) == 31

    orders.execute("select pgmq.archive('orders', array[30, 31]::bigint[])")
    assert value(orders, LENGTH) == 31


def test_beyond_ten_thousand_it_is_the_planners_estimate_and_never_less(orders):
    orders.execute("insert into pgmq.q_orders (vt) select now() from generate_series(1, 12019)")

    assert value(orders, LENGTH) == 10_000
    orders.execute("analyze pgmq.q_orders")
    assert value(orders, LENGTH) == 12_000


def test_without_partitions_there_is_no_length(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute("select pgmq.create('orders_default')")

    assert rows(connection, LENGTH) == [(None,)]
