"""sluice._msg_id_at: the first id sent at a time or later."""

import pytest

from support import value


@pytest.fixture
def sent(connection):
    """A queue with the ids 1 to 100, one a minute from 10:01, from which 20 to 39 were deleted."""
    connection.execute("select pgmq.create('orders'), pgmq.create('empty')")
    connection.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[100]))")
    connection.execute(
        "update pgmq.q_orders set enqueued_at = '2026-01-01 10:00+00'::timestamptz + make_interval(mins => msg_id::integer)"
    )
    connection.execute("delete from pgmq.q_orders where msg_id between 20 and 39")
    return connection


@pytest.mark.parametrize(
    ("at", "wanted"),
    [
        ("2026-01-01 00:00+00", 1),
        ("2026-01-01 10:01+00", 1),
        ("2026-01-01 10:05:30+00", 6),
        ("2026-01-01 10:19+00", 19),
        ("2026-01-01 11:40+00", 100),
        ("2026-01-01 12:00+00", 101),
        (None, None),
    ],
)
def test_first_id_of_a_time_is_found(sent, at, wanted):
    assert value(sent, "select sluice._msg_id_at('q_orders', %s)", at) == wanted


def test_time_within_a_gap_gives_an_id_in_the_gap(sent):
    found = value(sent, "select sluice._msg_id_at('q_orders', '2026-01-01 10:30+00')")

    assert 20 <= found <= 40


def test_empty_queue_has_none(sent):
    assert value(sent, "select sluice._msg_id_at('q_empty', now())") is None
