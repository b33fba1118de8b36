"""sluice.retire_schedules: an app pauses the schedules that it no longer declares."""

from support import rows, value
from support.schedules import schedule

PAUSED = "select name from sluice.schedule where paused_at is not null order by name"


def declare(connection, name, app):
    schedule(connection, name, every="1 hour", declared_by=app)


def test_only_schedules_that_the_app_no_longer_declares_are_paused(orders):
    for name, app in [("kept", "shop"), ("gone", "shop"), ("other", "till"), ("held", "shop")]:
        declare(orders, name, app)
    schedule(orders, "by hand", every="1 hour")
    orders.execute("select sluice.pause_schedule('held')")

    assert rows(orders, "select sluice.retire_schedules('shop', '{kept}')") == [("gone",)]
    assert rows(orders, "select sluice.retire_schedules('shop', '{kept}')") == []
    assert rows(orders, PAUSED) == [("gone",), ("held",)]


def test_a_schedule_declared_again_is_resumed_and_one_paused_by_hand_is_not(orders):
    declare(orders, "gone", "shop")
    declare(orders, "held", "shop")
    orders.execute("select sluice.pause_schedule('held')")
    orders.execute("select sluice.retire_schedules('shop', '{}')")

    declare(orders, "gone", "shop")
    declare(orders, "held", "shop")

    assert rows(orders, PAUSED) == [("held",)]
    assert value(orders, "select next_slot > now() from sluice.schedule where name = 'gone'")


def test_a_schedule_that_is_resumed_by_hand_is_not_paused_again(orders):
    declare(orders, "gone", "shop")
    orders.execute("select sluice.retire_schedules('shop', '{}')")
    orders.execute("select sluice.pause_schedule('gone', false)")

    assert rows(orders, "select sluice.retire_schedules('shop', '{}')") == []
    assert rows(orders, PAUSED) == []
