from support import rows, value


def test_a_rejected_message_is_a_dead_letter_with_all_it_was(connection, claimed):
    assert (
        value(connection, "select sluice.reject('orders', %s, %s, 'bad shape', 'trace')", *claimed)
        is True
    )

    assert rows(
        connection,
        "select queue_name, msg_id, read_ct, message, headers, reason, error from sluice.dead_letter",
    ) == [("orders", 1, 1, {"n": 1}, {"h": 2}, "bad shape", "trace")]
    assert value(connection, "select count(*) from pgmq.q_orders") == 0


def test_a_claim_that_is_over_rejects_nothing(connection, claimed):
    connection.execute("select pgmq.set_vt('orders', 1, 0)")
    connection.execute("select pgmq.read('orders', 30, 1)")

    assert value(connection, "select sluice.reject('orders', %s, %s, 'late')", *claimed) is False

    assert value(connection, "select count(*) from sluice.dead_letter") == 0
    assert value(connection, "select count(*) from pgmq.q_orders") == 1
