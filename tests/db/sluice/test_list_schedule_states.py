"""sluice.list_schedule_states: all schedules without their messages."""

from __future__ import annotations

import psycopg

from support.schedules import schedule

STATES = (
    "select name, target, queue_name, paused_at is not null, is_failing, error "
    'from sluice.list_schedule_states() order by name collate "C"'
)


def test_errors_are_shown_to_those_who_may_read_messages(orders: psycopg.Connection, as_member):
    for name in ("b", "a"):
        schedule(orders, name, every="1 hour")
    orders.execute("select sluice.pause_schedule('a')")
    orders.execute("update sluice.schedule set error = 'value 4711 is wrong' where name = 'b'")

    paused, failing = ("a", "queue", "orders", True, False), ("b", "queue", "orders", False, True)
    assert as_member("sluice_monitor", STATES) == [(*paused, None), (*failing, None)]
    assert as_member("sluice_reader", STATES) == [
        (*paused, None),
        (*failing, "value 4711 is wrong"),
    ]
