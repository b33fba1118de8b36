import psycopg
import pytest

from support import rows, value


@pytest.fixture
def three(connection, queue):
    connection.execute("select pgmq.send_batch('orders', array['1', '2', '3']::jsonb[])")


def test_delete_says_whether_the_message_was_there(connection, three):
    assert value(connection, "select pgmq.delete('orders', 2)") is True
    assert value(connection, "select pgmq.delete('orders', 2)") is False
    assert value(connection, "select pgmq.delete('orders', null::bigint)") is False
    assert rows(connection, "select msg_id from pgmq.q_orders order by 1") == [(1,), (3,)]


def test_a_batch_returns_what_was_there_sorted_and_once(connection, three):
    cursor = connection.execute("select * from pgmq.delete('orders', array[3, 9, 1, 3])")

    assert [column.name for column in cursor.description] == ["delete"]
    assert cursor.fetchall() == [(1,), (3,)]


@pytest.mark.parametrize("ids", ["'{}'::bigint[]", "null::bigint[]", "array[null]::bigint[]"])
def test_an_empty_batch_deletes_nothing(connection, three, ids):
    assert rows(connection, f"select pgmq.delete('orders', {ids})") == []
    assert value(connection, "select count(*) from pgmq.q_orders") == 3


def test_a_missing_queue_is_an_error(connection):
    with pytest.raises(
        psycopg.errors.UndefinedTable, match='relation "pgmq.q_missing" does not exist'
    ):
        connection.execute("select pgmq.delete('missing', 1)")
