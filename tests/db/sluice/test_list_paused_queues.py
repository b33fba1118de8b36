"""sluice.list_paused_queues: which queues are paused, since when, by whom, and why."""

import pytest

from support import rows, value


def test_paused_queues_are_listed_by_name(orders):
    query = "select queue_name, paused_by, reason from sluice.list_paused_queues()"
    assert rows(orders, query) == []

    orders.execute("select sluice.pause_queue('orders', 'bank is down')")
    orders.execute("select sluice.pause_queue('again')")

    by = f"role {orders.info.user}, application ''"
    assert rows(orders, query) == [("again", by, None), ("orders", by, "bank is down")]
    assert value(
        orders, "select every(paused_at <= clock_timestamp()) from sluice.list_paused_queues()"
    )


@pytest.mark.parametrize(
    "member_of", ["sluice_admin", "sluice_reader", "sluice_writer", "sluice_monitor"]
)
def test_all_roles_may_list(orders, as_member, member_of):
    orders.execute("select sluice.pause_queue('orders')")

    assert as_member(member_of, "select queue_name from sluice.list_paused_queues()") == [
        ("orders",)
    ]
