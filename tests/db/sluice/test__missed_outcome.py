"""sluice._missed_outcome: a claim that is not current."""

from support import value


def test_it_is_stale_while_the_message_is_queued_and_gone_afterwards(connection, claimed):
    assert value(connection, "select sluice._missed_outcome('ORDERS', 1)") == "stale"

    connection.execute("select pgmq.delete('orders', 1)")

    assert value(connection, "select sluice._missed_outcome('orders', 1)") == "gone"
