"""sluice.queue_stream_start; test_queue_stream_claim.py covers complete streams."""

from support import rows


def test_the_name_finds_the_stream_again_in_any_spelling_of_its_queue(connection):
    connection.execute("select pgmq.create('orders')")

    first = rows(connection, "select * from sluice.queue_stream_start('lake', 'orders')")

    assert rows(connection, "select * from sluice.queue_stream_start('lake', 'ORDERS')") == first
    assert rows(connection, "select * from sluice.queue_stream_start('Lake', 'orders')") != first
