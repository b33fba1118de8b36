"""sluice.pause_schedule: a paused schedule does not fire, and continues from its resumption without the slots of the pause."""

import psycopg
import pytest

from support import value
from support.schedules import due_since, fire, schedule, state


def test_paused_schedule_is_not_fired(orders):
    schedule(orders, every="1 hour")
    due_since(orders, "90 minutes")

    assert value(orders, "select sluice.pause_schedule('nightly')") is True
    assert value(orders, "select sluice.pause_schedule('nightly')") is False

    assert fire(orders) == []
    assert value(orders, "select min(due_at) from sluice.schedule") is None
    assert state(orders, "paused_at") <= value(orders, "select clock_timestamp()")


@pytest.mark.parametrize("catch_up", ["one", "all"])
def test_slots_of_the_pause_are_not_caught_up(orders, catch_up):
    schedule(orders, every="1 hour", catch_up=catch_up)
    due_since(orders, "90 minutes")
    orders.execute("select sluice.pause_schedule('nightly')")

    assert value(orders, "select sluice.pause_schedule('nightly', false)") is True
    assert value(orders, "select sluice.pause_schedule('nightly', false)") is False

    assert fire(orders) == []
    assert state(orders, "paused_at") is None
    assert value(
        orders, "select next_slot - now() between '29 minutes' and '31 minutes' from sluice.list_schedules()"
    )  # fmt: skip


def test_missing_schedule_is_named(connection):
    for call in ("sluice.pause_schedule('nightly')", "sluice.pause_schedule('nightly', false)"):
        with pytest.raises(psycopg.Error, match="schedule 'nightly' does not exist") as caught:
            connection.execute(f"select {call}")

        assert caught.value.sqlstate == "RS001"
