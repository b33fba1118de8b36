"""sluice.run_schedule: it sends a schedule's message now and leaves its slots unchanged."""

import psycopg
import pytest

from support import rows, value
from support.schedules import schedule, state


def test_it_sends_now_and_touches_no_slot(orders):
    schedule(orders, queue_name="again", message={"n": 1}, every="1 hour", headers='{"h": 1}')
    orders.execute("select sluice.pause_schedule('nightly')")
    before = rows(orders, "select * from sluice.list_schedules()")

    assert [value(orders, "select sluice.run_schedule('nightly')") for _ in range(2)] == [1, 2]

    assert rows(orders, "select * from sluice.list_schedules()") == before
    assert rows(orders, "select * from sluice.schedule_slot") == []
    assert rows(orders, "select message, headers from pgmq.q_again where msg_id = 1") == [
        ({"n": 1}, {"h": 1, "x-pgmq-schedule": {"name": "nightly", "slot": None}})
    ]
    assert state(orders, "last_slot") is None


def test_missing_schedule_is_named(connection):
    with pytest.raises(psycopg.Error, match="schedule 'nightly' does not exist"):
        connection.execute("select sluice.run_schedule('nightly')")
