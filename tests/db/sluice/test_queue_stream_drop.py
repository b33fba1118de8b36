import psycopg
import pytest

from support import rows, value


def test_unsettled_claims_are_visible_again_without_counting_an_attempt(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute(
        "select pgmq.send_batch('orders', array(select to_jsonb(n) from generate_series(1, 7) as n))"
    )
    stream = value(connection, "select stream_id from sluice.queue_stream_start('lake', 'orders')")
    for seq, qty in ((0, 3), (1, 2), (2, 2)):
        connection.execute("select sluice.queue_stream_claim(%s, %s, %s)", [stream, seq, qty])
    connection.execute("select sluice.queue_stream_settle(%s, 1)", [stream])

    assert value(connection, "select sluice.queue_stream_drop('lake')") == 4

    again = rows(connection, "select msg_id, read_ct from pgmq.read('orders', 30, 10)")
    assert again == [(n, 2) for n in (4, 5, 6, 7)]
    begun = "select outcome, attempt from sluice.begin_attempts('orders', array[4], array[2], 'w')"
    assert rows(connection, begun) == [("begun", 1)]
    assert value(connection, "select sluice.queue_stream_drop('lake')") is None
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="was given up"):
        connection.execute("select * from sluice.queue_stream_claim(%s, 3, 1)", [stream])
