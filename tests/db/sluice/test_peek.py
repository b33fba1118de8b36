from support import rows


def test_peek_shows_the_first_messages_as_they_are_and_claims_none(orders):
    query = "select msg_id, read_ct, state from sluice.peek('orders', 3)"
    wanted = [(6, 1, "in flight"), (7, 0, "delayed"), (8, 0, "visible")]

    assert rows(orders, query) == wanted
    assert rows(orders, query) == wanted
    assert rows(orders, "select msg_id from pgmq.read('orders', 30, 9)") == [(8,), (9,)]


def test_peek_shows_one_unless_asked_for_more_and_goes_on_after_an_id(orders):
    assert rows(orders, "select msg_id from sluice.peek('orders')") == [(6,)]
    assert rows(orders, "select msg_id from sluice.peek('orders', 2, 7)") == [(8,), (9,)]


def test_a_look_at_a_large_queue_costs_what_it_shows(large, buffers):
    assert buffers("select * from sluice.peek('large', 10)") < 20
    assert buffers("select * from sluice.peek('large', 10, 90000)") < 20
