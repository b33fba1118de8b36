"""sluice._maintain_successors: messages whose leaving no trigger saw."""

import pytest

from support import rows, value

VISIBLE = "select vt <= clock_timestamp() from pgmq.q_then"
UNSEEN = {
    "a disabled trigger": "set session_replication_role = replica; delete from pgmq.q_first; reset session_replication_role",
    "a table dropped by hand": "drop table pgmq.q_first",
}


def maintained(connection):
    connection.execute("update sluice.predecessor set check_at = now()")
    return rows(connection, "select * from sluice._maintain_successors()")


@pytest.mark.parametrize("way", UNSEEN)
def test_a_message_that_left_unseen_counts_as_done(connection, way):
    for name in ("first", "then"):
        connection.execute(f"select pgmq.create('{name}')")
    connection.execute("select sluice.enable_successors('first'), pgmq.send('first', '1'::jsonb)")
    connection.execute("select sluice.send_after('then', '1', '{first}', '{1}')")
    assert maintained(connection) == []
    assert value(connection, VISIBLE) is False

    connection.execute(UNSEEN[way])

    ((task, queue_name, done, detail),) = maintained(connection)
    assert (task, queue_name, done) == ("successors", "first", True)
    assert detail == "1 messages that others wait for are not in the queue"
    assert value(connection, VISIBLE) is True
    assert maintained(connection) == []


def test_a_message_is_checked_after_a_minute_and_then_ever_more_rarely(connection):
    connection.execute("select pgmq.create('first'), sluice.enable_successors('first')")
    connection.execute("select pgmq.send('first', '1'::jsonb)")
    connection.execute("select sluice.send_after('first', '1', '{first}', '{1}')")
    minutes = "select round(extract(epoch from check_at - clock_timestamp()) / 60) from sluice.predecessor"
    assert value(connection, minutes) == 1
    for waited, expected in ((0, 1), (10, 10), (500, 60)):
        connection.execute(
            "update sluice.predecessor set noted_at = now() - %s * interval '1 min'", [waited]
        )
        maintained(connection)
        assert value(connection, minutes) == expected
