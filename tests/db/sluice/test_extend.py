from support import rows, value

LEFT = (
    "select round(extract(epoch from vt - clock_timestamp())) from pgmq.q_orders where msg_id = 1"
)


def test_a_current_claim_is_extended_from_now_on(connection, claimed):
    assert value(connection, "select sluice.extend('orders', %s, %s, 600)", *claimed) is True

    assert 590 <= value(connection, LEFT) <= 600
    assert rows(connection, "select * from pgmq.read('orders', 30, 1)") == []


def test_a_claim_that_is_over_extends_nothing(connection, claimed):
    connection.execute("select pgmq.set_vt('orders', 1, 0)")
    connection.execute("select pgmq.read('orders', 30, 1)")

    assert value(connection, "select sluice.extend('orders', %s, %s, 600)", *claimed) is False
    assert value(connection, LEFT) <= 30


def test_expired_claim_is_extended_until_claimed_again(connection, claimed):
    connection.execute("select pgmq.set_vt('orders', 1, -5)")

    assert value(connection, "select sluice.extend('orders', %s, %s, 600)", *claimed) is True
    assert rows(connection, "select * from pgmq.read('orders', 30, 1)") == []


def test_several_claims_are_extended_at_once_and_stay_what_they_are(connection, claimed):
    connection.execute("select pgmq.send('orders', '2'::jsonb)")
    connection.execute("select pgmq.read('orders', 30, 1)")
    others = (
        "select msg_id, read_ct, enqueued_at, last_read_at, message from pgmq.q_orders order by 1"
    )
    before = rows(connection, others)

    extend = "select * from sluice.extend('orders', array[2, 1], array[1, 1], 600)"
    assert rows(connection, extend) == [(2, "done"), (1, "done")]

    assert rows(connection, others) == before
    hidden = "select min(vt) > clock_timestamp() + interval '590 s' from pgmq.q_orders"
    assert value(connection, hidden) is True
