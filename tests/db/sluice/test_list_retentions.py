from datetime import timedelta

from support import rows


def test_every_queue_is_listed_by_name_and_null_is_for_ever(orders, as_member):
    orders.execute("select sluice.set_retention('orders', '30 days')")
    wanted = [("again", None), ("orders", timedelta(days=30))]

    assert rows(orders, "select * from sluice.list_retentions()") == wanted
    assert as_member("sluice_monitor", "select * from sluice.list_retentions()") == wanted
