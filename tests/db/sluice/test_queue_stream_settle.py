"""A stream from its beginning to its end is in test_queue_stream_claim.py; here is what only queue_stream_settle has to say."""

from support import rows, value


def test_what_the_archive_keeps_is_what_the_queue_had(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute("""select pgmq.send('orders', '{"a": 1}', '{"h": 2}', 0)""")
    stream = value(connection, "select stream_id from sluice.queue_stream_start('lake', 'orders')")
    connection.execute("select sluice.queue_stream_claim(%s, 0, 10)", [stream])
    kept = "select msg_id, read_ct, enqueued_at, last_read_at, message, headers from pgmq.{}_orders"
    before = rows(connection, kept.format("q"))

    assert value(connection, "select sluice.queue_stream_settle(%s, 1)", stream) == 1
    assert rows(connection, kept.format("a")) == before
    assert rows(connection, "select messages from sluice.queue_stream_batch") == []
