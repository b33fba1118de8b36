"""sluice._missed_outcome: a claim that is not current."""

from support import value

MISSED = "select sluice._missed_outcome('ORDERS', 1, {})"
OF_QUEUED = MISSED.format("(select enqueued_at from pgmq.q_orders)")


def test_it_is_stale_while_the_message_is_queued_and_gone_afterwards(connection, claimed):
    assert value(connection, MISSED.format("null")) == "stale"
    assert value(connection, OF_QUEUED) == "stale"
    assert value(connection, MISSED.format("'infinity'")) == "gone"

    connection.execute("select pgmq.delete('orders', 1)")

    assert value(connection, MISSED.format("null")) == "gone"
