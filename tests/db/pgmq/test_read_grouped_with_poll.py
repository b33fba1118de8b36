import threading

import psycopg
import pytest

from support import rows, wait_until


def poll(connection, arguments):
    return [
        row[0]
        for row in rows(
            connection,
            f"select msg_id from pgmq.read_grouped_with_poll('orders', 30, 1, {arguments})",
        )
    ]


def test_existing_messages_are_returned_immediately(connection, queue):
    connection.execute("select pgmq.send('orders', '1'::jsonb)")

    assert poll(connection, "60, 60000") == [1]


def test_with_no_seconds_nothing_is_read(connection, queue):
    connection.execute("select pgmq.send('orders', '1'::jsonb)")

    assert poll(connection, "0") == []
    assert poll(connection, "-1") == []
    assert poll(connection, "1") == [1]


@pytest.mark.slow
def test_nothing_comes_of_an_empty_queue_when_the_seconds_are_over(connection, queue):
    assert poll(connection, "1, 10") == []


@pytest.mark.parametrize("seconds", ["60", "null"])
def test_a_poll_sees_what_is_sent_while_it_waits(database, connection, queue, seconds):
    found = []
    with database.connect() as waiting:
        pid = waiting.info.backend_pid
        thread = threading.Thread(target=lambda: found.append(poll(waiting, f"{seconds}, 10")))
        thread.start()
        wait_until(
            lambda: (
                rows(connection, "select wait_event from pg_stat_activity where pid = %s", pid)
                == [("PgSleep",)]
            ),
            "the poll to sleep",
        )
        connection.execute("select pgmq.send('orders', '1'::jsonb)")
        thread.join(30)

    assert found == [[1]]


def test_a_queue_that_does_not_exist_is_an_error(connection):
    with pytest.raises(psycopg.errors.UndefinedTable):
        poll(connection, "1")
