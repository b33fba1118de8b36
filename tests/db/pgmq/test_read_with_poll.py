import threading
import time

import psycopg
import pytest

from support import rows, value, wait_for_sleep, wait_until


@pytest.fixture
def three(connection, queue):
    connection.execute(
        "select pgmq.send_batch('orders', array['{\"n\": 1}', '{\"n\": 2}', '{\"n\": 3}']::jsonb[])"
    )


def ids(connection, call):
    return [row[0] for row in rows(connection, f"select * from {call}")]


class Poll:
    """A poll in a background thread; `rows` is its result."""

    def __init__(self, connection, call):
        self.rows = None
        self._thread = threading.Thread(target=self._run, args=[connection, call])
        self._thread.start()

    def _run(self, connection, call):
        self.rows = rows(connection, f"select msg_id from {call}")

    def done(self):
        self._thread.join(timeout=0)
        return not self._thread.is_alive()


def test_visible_messages_are_returned_as_by_read_without_waiting(connection, three):
    cursor = connection.execute("select * from pgmq.read_with_poll('orders', 30, 2, 600, 60000)")

    assert [column.name for column in cursor.description] == [
        "msg_id", "read_ct", "enqueued_at", "last_read_at", "vt", "message", "headers",
    ]  # fmt: skip
    assert [(row[0], row[1], row[5]) for row in cursor] == [(1, 1, {"n": 1}), (2, 1, {"n": 2})]
    assert ids(connection, "pgmq.read('orders', 30, 9)") == [3]


def test_rows_come_in_id_order_whatever_the_order_on_disk(connection, three):
    connection.execute("update pgmq.q_orders set headers = '{}' where msg_id in (2, 1)")

    assert ids(connection, "pgmq.read_with_poll('orders', 30, 5)") == [1, 2, 3]


def test_conditional_keeps_the_messages_that_contain_it(connection, three):
    call = "pgmq.read_with_poll('orders', 30, 5, 1, 10, '{\"n\": 2}')"

    assert ids(connection, call) == [2]


def test_with_no_time_to_poll_nothing_is_looked_at(connection, three):
    assert ids(connection, "pgmq.read_with_poll('orders', 30, 5, 0)") == []
    assert ids(connection, "pgmq.read_with_poll('orders', 30, 5, -1)") == []
    assert value(connection, "select sum(read_ct) from pgmq.q_orders") == 0


@pytest.mark.slow
def test_an_empty_queue_is_given_up_at_the_deadline_and_not_a_pause_later(connection, queue):
    started_s = time.monotonic()

    assert ids(connection, "pgmq.read_with_poll('orders', 30, 5, 1, 600000)") == []

    assert 1.0 <= time.monotonic() - started_s < 60


@pytest.mark.parametrize("max_poll_seconds", ["600", "null"])
def test_a_message_sent_while_it_waits_is_returned(database, connection, queue, max_poll_seconds):
    with database.connect() as waiting:
        poll = Poll(waiting, f"pgmq.read_with_poll('orders', 30, 5, {max_poll_seconds}, 10)")
        wait_for_sleep(connection, waiting)
        assert not poll.done()
        connection.execute("select pgmq.send('orders', '1'::jsonb)")
        wait_until(poll.done, "the poll to return")

    assert poll.rows == [(1,)]


@pytest.mark.slow
def test_a_message_whose_delay_ends_while_it_waits_is_returned(connection, queue):
    connection.execute("select pgmq.send('orders', '1'::jsonb, 1)")

    assert ids(connection, "pgmq.read_with_poll('orders', 30, 5, 60, 10)") == [1]


@pytest.mark.parametrize("poll_interval_ms", ["0", "-5", "null"])
def test_without_a_pause_it_still_sleeps_between_two_looks(
    database, connection, queue, poll_interval_ms
):
    with database.connect() as waiting:
        poll = Poll(waiting, f"pgmq.read_with_poll('orders', 30, 5, 600, {poll_interval_ms})")
        wait_for_sleep(connection, waiting)
        connection.execute("select pgmq.send('orders', '1'::jsonb)")
        wait_until(poll.done, "the poll to return")

    assert poll.rows == [(1,)]


@pytest.mark.parametrize(
    ("call", "sqlstate"),
    [
        ("pgmq.read_with_poll('orders', 30, -1)", "2201W"),
        ("pgmq.read_with_poll('orders', null, 1)", "23502"),
        ("pgmq.read_with_poll('missing', 30, 1)", "42P01"),
        ("pgmq.read_with_poll('a;b', 30, 1, 0)", "P0001"),
    ],
)
def test_bad_calls_fail_at_once_and_claim_nothing(connection, three, call, sqlstate):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(f"select * from {call}")

    assert caught.value.sqlstate == sqlstate
    assert value(connection, "select sum(read_ct) from pgmq.q_orders") == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [
        "read_with_poll",
        "read_grouped_with_poll",
        "read_grouped_rr_with_poll",
        "read_grouped_head_with_poll",
    ],
)
def test_null_is_the_default_so_a_call_returns(connection, queue, function):
    connection.execute("set statement_timeout = '60s'")

    assert ids(connection, f"pgmq.{function}('orders', 30, 5, null, null)") == []


@pytest.mark.parametrize(
    "variant", ["read", "read_grouped", "read_grouped_rr", "read_grouped_head"]
)
def test_a_poll_returns_before_statement_timeout_cancels_it(connection, queue, variant):
    connection.execute("set statement_timeout = '400ms'")

    assert rows(connection, f"select * from pgmq.{variant}_with_poll('orders', 30, 1, 60)") == []
