import psycopg
import pytest

from support import value


def test_the_reader_goes_with_the_queue(connection, queue):
    connection.execute("select pgmq.drop_queue('orders')")

    assert value(connection, "select to_regproc('pgmq.q_orders')") is None


def test_the_reader_of_a_queue_that_exists_stays(connection, queue):
    with pytest.raises(psycopg.errors.ObjectInUse) as caught:
        connection.execute("select pgmq._drop_reader('Orders')")

    assert caught.value.diag.message_hint == "call pgmq.drop_queue('Orders') to drop both"
    assert value(connection, "select to_regproc('pgmq.q_orders')") is not None
