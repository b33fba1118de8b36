"""sluice.queue_stream_slices; test_queue_stream_claim.py covers complete streams."""

from support import rows, value


def test_a_slice_is_found_by_the_index_of_deferred_messages(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute("select pgmq.send_batch('orders', array_fill('1'::jsonb, array[20000]))")
    stream = value(connection, "select stream_id from sluice.queue_stream_start('lake', 'orders')")
    connection.execute("select sluice.queue_stream_claim(%s, 0, 5000)", [stream])
    connection.execute("analyze pgmq.q_orders")
    queries = rows(
        connection,
        "select query from sluice.queue_stream_slices(%s, 0, 1, 4, 2000, array['msg_id', 'headers'])",
        stream,
    )

    assert len(queries) == 3
    assert sum(len(rows(connection, query)) for (query,) in queries) == 5000
    plan = "\n".join(line for (line,) in rows(connection, f"explain {queries[1][0]}"))
    assert "q_orders_vt_idx" in plan
