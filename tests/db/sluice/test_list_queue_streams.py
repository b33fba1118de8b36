from support import rows, value


def test_position_and_claims_of_each_stream_are_listed(connection, as_member):
    connection.execute(
        "select pgmq.create('orders'), pgmq.send_batch('orders', array_fill('1'::jsonb, array[5]))"
    )
    for name in ("lake", "idle"):
        stream = value(
            connection, "select stream_id from sluice.queue_stream_start(%s, 'orders')", name
        )
        if name == "lake":
            for seq in range(2):
                connection.execute("select sluice.queue_stream_claim(%s, %s, 2)", [stream, seq])
            connection.execute("select sluice.queue_stream_settle(%s, 1)", [stream])

    query = """select stream_name, queue_name, settled_seq, claimed_messages, oldest_claim_at <= clock_timestamp()
        from sluice.list_queue_streams()"""
    assert (
        as_member("sluice_monitor", query)
        == rows(connection, query)
        == [
            ("idle", "orders", 0, 0, None),
            ("lake", "orders", 1, 2, True),
        ]
    )
