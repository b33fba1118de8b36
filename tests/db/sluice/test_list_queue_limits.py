from datetime import timedelta

from support import rows


def test_every_queue_with_limits_is_listed_by_name_with_what_is_used(orders, as_member):
    orders.execute(
        "select sluice.declare_queue_limits('orders', 'pack', 9, 2), "
        "sluice.set_queue_limits('again', rate => 7, rate_interval => '1 hour', priority_weights => '{2, 1}')"
    )
    orders.execute("select pgmq.send_batch('again', '{1, 2, 3}')")
    orders.execute("select sluice.claim_messages('again', 30, 2)")
    orders.execute("update sluice.queue_start set started_at = started_at - interval '2 hours'")
    orders.execute("select sluice.claim_messages('again', 30, 2)")
    wanted = [
        ("again", None, None, 7, timedelta(hours=1), None, [2, 1], None, 1, None),
        ("orders", 9, 2, None, None, None, None, 1, None, "pack"),
    ]

    query = "select * from sluice.list_queue_limits()"
    assert rows(orders, query) == wanted
    for member_of in ("sluice_admin", "sluice_monitor", "sluice_reader"):
        assert as_member(member_of, query) == wanted
