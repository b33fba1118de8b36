from support import rows


def test_message_claimed_a_hundred_times_is_returned_unless_its_handler_released_it(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute("select pgmq.send('orders', '{}') from generate_series(1, 4)")
    connection.execute("update pgmq.q_orders set read_ct = 98 + msg_id")

    def found(*msg_ids):
        names = ", ".join(["'orders'", *map(str, msg_ids)])
        return rows(connection, f"select msg_id, read_ct from sluice.poison_message({names})")

    assert found() == [(4, 102)]
    assert [found(msg_id) for msg_id in (1, 2, 3, 9)] == [[], [(2, 100)], [(3, 101)], []]

    connection.execute(
        "insert into sluice.attempt (queue_name, msg_id, enqueued_at, read_ct, state, attempts, check_at) "
        "values ('orders', 4, now(), 102, 'released', 0, now())"
    )
    assert found() == [(3, 101)]
