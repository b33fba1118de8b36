"""sluice.queue_stream_settle; test_queue_stream_claim.py covers complete streams."""

from support import rows, value


def test_archived_rows_equal_the_queue_rows(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute("""select pgmq.send('orders', '{"a": 1}', '{"h": 2}', 0)""")
    stream = value(connection, "select stream_id from sluice.queue_stream_start('lake', 'orders')")
    connection.execute("select sluice.queue_stream_claim(%s, 0, 10)", [stream])
    kept = "select msg_id, read_ct, enqueued_at, last_read_at, message, headers from pgmq.{}_orders"
    before = rows(connection, kept.format("q"))

    assert value(connection, "select sluice.queue_stream_settle(%s, 1)", stream) == 1
    assert rows(connection, kept.format("a")) == before
    assert rows(connection, "select batches::text from sluice.queue_stream") == [("{}",)]
