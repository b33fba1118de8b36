import psycopg
import pytest

from support import rows, value


@pytest.fixture
def three(connection, queue):
    connection.execute("select pgmq.send_batch('orders', array['1', '2', '3']::jsonb[])")


def test_pop_takes_one_by_default_and_deletes_it(connection, three):
    assert rows(
        connection, "select msg_id, read_ct, last_read_at, message from pgmq.pop('orders')"
    ) == [(1, 0, None, 1)]
    assert value(connection, "select count(*) from pgmq.q_orders") == 2


def test_several_come_in_id_order(connection, three):
    connection.execute("update pgmq.q_orders set headers = '{}' where msg_id = 1")

    assert rows(connection, "select msg_id from pgmq.pop('orders', 5)") == [(1,), (2,), (3,)]


def test_hidden_messages_are_left(connection, three):
    connection.execute("select pgmq.read('orders', 30, 2)")

    assert rows(connection, "select msg_id from pgmq.pop('orders', 5)") == [(3,)]
    assert value(connection, "select count(*) from pgmq.q_orders") == 2


def test_message_locked_by_another_transaction_is_skipped(database, connection, three):
    with database.connect(autocommit=False) as first:
        first.execute("select pgmq.pop('orders')")
        assert rows(connection, "select msg_id from pgmq.pop('orders')") == [(2,)]
        first.rollback()

    assert rows(connection, "select msg_id from pgmq.pop('orders')") == [(1,)]


def test_a_negative_quantity_is_refused(connection, three):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select * from pgmq.pop('orders', -1)")

    assert caught.value.sqlstate == "2201W"
    assert value(connection, "select count(*) from pgmq.q_orders") == 3
