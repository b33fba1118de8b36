import pytest

from support import rows, value


def test_a_released_message_comes_back_after_its_delay(connection, claimed):
    assert value(connection, "select sluice.release('orders', %s, %s, 60)", *claimed) is True
    assert rows(connection, "select * from pgmq.read('orders', 30, 1)") == []

    assert value(connection, "select sluice.release('orders', %s, %s)", *claimed) is True
    assert rows(connection, "select msg_id, read_ct from pgmq.read('orders', 30, 1)") == [(1, 2)]


def test_a_claim_that_is_over_releases_nothing(connection, claimed):
    connection.execute("select pgmq.set_vt('orders', 1, 0)")
    connection.execute("select pgmq.read('orders', 30, 1)")

    assert value(connection, "select sluice.release('orders', %s, %s)", *claimed) is False
    assert rows(connection, "select * from pgmq.read('orders', 30, 1)") == []


def test_several_messages_are_released_at_once(connection, claimed):
    connection.execute("select pgmq.send('orders', '2'::jsonb)")
    connection.execute("select pgmq.read('orders', 30, 1)")

    outcomes = rows(connection, "select * from sluice.release('orders', array[2, 1], array[1, 1])")

    assert outcomes == [(2, "done"), (1, "done")]
    again = rows(connection, "select msg_id, read_ct from pgmq.read('orders', 30, 9)")
    assert again == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    "release",
    [
        "select sluice.release('orders', 1, 1, %s)",
        "select sluice.release('orders', array[1], array[1], %s)",
    ],
)
def test_released_event_has_no_holder(connection, claimed, release):
    """The columns of a released message distinguish it from one in flight."""
    state = "select state, last_read_at is null from sluice.browse('orders')"
    assert rows(connection, state) == [("in flight", False)]

    connection.execute(release, (0,))
    assert rows(connection, state) == [("visible", False)]
    connection.execute(release, (60,))
    assert rows(connection, state) == [("retrying", True)]
