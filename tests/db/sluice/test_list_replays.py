from support import rows


def test_replays_are_listed_with_what_they_have_sent(orders):
    orders.execute("select sluice.start_replay('ORDERS', 'again', '{\"odd\": true}')")
    orders.execute("select sluice.start_replay('again')")
    orders.execute("select sluice.continue_replay(1, 1)")
    orders.execute("select sluice.continue_replay(2)")

    assert rows(
        orders,
        "select replay_id, queue_name, target_queue_name, conditional, replayed, finished_at is null "
        "from sluice.list_replays()",
    ) == [(1, "orders", "again", {"odd": True}, 1, True), (2, "again", "again", {}, 0, False)]
