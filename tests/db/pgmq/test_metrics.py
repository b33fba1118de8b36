import pytest

from support import rows, value


def test_an_empty_queue_has_no_ages(connection, queue):
    cursor = connection.execute("select * from pgmq.metrics('orders')")

    assert [column.name for column in cursor.description] == [
        "queue_name", "queue_length", "newest_msg_age_sec", "oldest_msg_age_sec", "total_messages", "scrape_time",
        "queue_visible_length", "default_partition_length",
    ]  # fmt: skip
    (row,) = cursor.fetchall()
    assert (*row[:5], *row[6:]) == ("orders", 0, None, None, 0, 0, None)


def test_lengths_ages_and_assigned_ids(connection, queue):
    connection.execute("select pgmq.send_batch('orders', array['1', '2', '3']::jsonb[])")
    connection.execute(
        "update pgmq.q_orders set enqueued_at = now() - interval '90 s' where msg_id = 1"
    )
    connection.execute("select pgmq.read('orders', 30, 1)")
    connection.execute("select pgmq.delete('orders', 2)")

    (row,) = rows(
        connection,
        "select queue_length, newest_msg_age_sec, oldest_msg_age_sec, total_messages, queue_visible_length from pgmq.metrics('orders')",
    )

    assert (row[0], row[3], row[4]) == (2, 3, 1)
    assert 0 <= row[1] < 60
    assert 90 <= row[2] < 150


def test_the_name_comes_back_as_it_was_given(connection, queue):
    assert rows(connection, "select queue_name from pgmq.metrics('ORDERS')") == [("ORDERS",)]


@pytest.mark.parametrize("time", ["infinity", "-infinity", "4000-01-01", "0001-01-01 BC"])
def test_a_time_that_has_no_age_does_not_break_metrics(connection, time):
    connection.execute("select pgmq.create('orders'), pgmq.send('orders', '1')")
    connection.execute("update pgmq.q_orders set enqueued_at = %s", (time,))

    length, age = rows(
        connection, "select queue_length, oldest_msg_age_sec from pgmq.metrics('orders')"
    )[0]

    assert length == 1
    assert (age is None) == (time in ("infinity", "-infinity"))
    assert value(connection, "select count(*) from pgmq.metrics_all()") == 1


def test_ages_are_those_of_messages_with_finite_times(connection):
    connection.execute(
        "select pgmq.create('orders'), pgmq.send('orders', '1'), pgmq.send('orders', '2')"
    )
    connection.execute("update pgmq.q_orders set enqueued_at = '-infinity' where msg_id = 1")

    assert 0 <= value(connection, "select oldest_msg_age_sec from pgmq.metrics('orders')") < 60
    assert value(connection, "select pgmq._age_s('infinity')") is None
