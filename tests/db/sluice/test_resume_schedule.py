"""sluice.resume_schedule: a schedule continues from now, without the slots of the pause."""

import psycopg
import pytest

from support import value
from support.schedules import due_since, fire, schedule, state


@pytest.mark.parametrize("catch_up", ["one", "all"])
def test_slots_of_the_pause_are_not_caught_up(orders, catch_up):
    schedule(orders, every="1 hour", catch_up=catch_up)
    due_since(orders, "90 minutes")
    orders.execute("select sluice.pause_schedule('nightly')")

    assert value(orders, "select sluice.resume_schedule('nightly')") is True
    assert value(orders, "select sluice.resume_schedule('nightly')") is False

    assert fire(orders) == []
    assert state(orders, "paused_at") is None
    assert value(
        orders, "select next_slot - now() between '29 minutes' and '31 minutes' from sluice.list_schedules()"
    )  # fmt: skip


def test_missing_schedule_is_named(connection):
    with pytest.raises(psycopg.Error, match="schedule 'nightly' does not exist"):
        connection.execute("select sluice.resume_schedule('nightly')")
