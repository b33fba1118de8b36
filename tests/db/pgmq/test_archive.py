import psycopg
import pytest

from support import rows, value


@pytest.fixture
def three(connection, queue):
    connection.execute(
        "select pgmq.send_batch('orders', array['1', '2', '3']::jsonb[], array['{}', null, '{\"h\": 3}']::jsonb[])"
    )


def test_the_archived_message_is_what_it_was_in_the_queue(connection, three):
    connection.execute("select pgmq.read('orders', 30, 3)")
    columns = "msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers"
    before = rows(connection, f"select {columns} from pgmq.q_orders where msg_id = 3")

    assert value(connection, "select pgmq.archive('orders', 3)") is True

    assert rows(connection, f"select {columns} from pgmq.a_orders") == before
    assert value(connection, "select archived_at is not null from pgmq.a_orders") is True
    assert rows(connection, "select msg_id from pgmq.q_orders order by 1") == [(1,), (2,)]


def test_archive_says_whether_the_message_was_there(connection, three):
    assert value(connection, "select pgmq.archive('orders', 1)") is True
    assert value(connection, "select pgmq.archive('orders', 1)") is False
    assert value(connection, "select pgmq.archive('orders', null::bigint)") is False
    assert value(connection, "select count(*) from pgmq.a_orders") == 1


def test_a_batch_returns_what_was_there_sorted_and_once(connection, three):
    cursor = connection.execute("select * from pgmq.archive('orders', array[3, 9, 1, 3])")

    assert [column.name for column in cursor.description] == ["archive"]
    assert cursor.fetchall() == [(1,), (3,)]


@pytest.mark.parametrize("ids", ["'{}'::bigint[]", "null::bigint[]"])
def test_an_empty_batch_archives_nothing(connection, three, ids):
    assert rows(connection, f"select pgmq.archive('orders', {ids})") == []
    assert value(connection, "select count(*) from pgmq.q_orders") == 3


def test_a_message_archived_twice_at_once_is_archived_once(database, connection, three):
    with database.connect(autocommit=False) as first:
        assert value(first, "select pgmq.archive('orders', 1)") is True
        connection.execute("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            connection.execute("select pgmq.archive('orders', 1)")
        first.commit()

    assert value(connection, "select pgmq.archive('orders', 1)") is False
