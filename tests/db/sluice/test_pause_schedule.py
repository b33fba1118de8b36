"""sluice.pause_schedule: what is paused does not fire."""

import psycopg
import pytest

from support import value
from support.schedules import due_since, fire, schedule, state


def test_what_is_due_is_fired_no_more(orders):
    schedule(orders, every="1 hour")
    due_since(orders, "90 minutes")

    assert value(orders, "select sluice.pause_schedule('nightly')") is True
    assert value(orders, "select sluice.pause_schedule('nightly')") is False

    assert fire(orders) == []
    assert value(orders, "select sluice.next_schedule_at()") is None
    assert state(orders, "paused_at") <= value(orders, "select clock_timestamp()")


def test_one_that_is_not_there_is_named(connection):
    with pytest.raises(psycopg.Error, match="schedule 'nightly' does not exist") as caught:
        connection.execute("select sluice.pause_schedule('nightly')")

    assert caught.value.sqlstate == "RS001"
