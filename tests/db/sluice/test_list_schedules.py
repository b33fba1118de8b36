"""sluice.list_schedules: all schedules; what they send only for roles that may read messages."""

from __future__ import annotations

import psycopg

from support.schedules import schedule

STATES = (
    "select name, queue_name, paused_at is not null, is_failing, error, message, is_hidden "
    'from sluice.list_schedules() order by name collate "C"'
)


def test_contents_and_errors_are_shown_to_those_who_may_read_messages(
    orders: psycopg.Connection, as_member
):
    for name in ("b", "a", "C"):
        schedule(orders, name, every="1 hour", message={"n": 1})
    orders.execute("select sluice.pause_schedule('a')")
    orders.execute("update sluice.schedule set error = 'value 4711 is wrong' where name = 'b'")

    names = [("C", "orders", False, False), ("a", "orders", True, False)]
    failing = ("b", "orders", False, True)
    assert as_member("sluice_monitor", STATES) == [
        *((*each, None, None, True) for each in names),
        (*failing, None, None, True),
    ]
    for reader in ("sluice_reader", "sluice_admin"):
        assert as_member(reader, STATES) == [
            *((*each, None, {"n": 1}, False) for each in names),
            (*failing, "value 4711 is wrong", {"n": 1}, False),
        ]
