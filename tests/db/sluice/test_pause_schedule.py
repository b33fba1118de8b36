"""sluice.pause_schedule: a paused schedule does not fire."""

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


def test_missing_schedule_is_named(connection):
    with pytest.raises(psycopg.Error, match="schedule 'nightly' does not exist") as caught:
        connection.execute("select sluice.pause_schedule('nightly')")

    assert caught.value.sqlstate == "RS001"
