from __future__ import annotations

import psycopg
import pytest

from support.explaining import causes, commands, explain


def explained(connection):
    return explain(connection, "explain_schedule", "nightly")


@pytest.fixture
def schedule(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute(
        "select sluice.schedule('nightly', 'orders', '{\"secret\": 1}', every => '1 hour')"
    )
    return connection


def state(connection):
    return explained(connection)[0].detail["state"]


def make_due(connection):
    """Move the next slot into the past, as if no process had fired it."""
    connection.execute(
        "update sluice.schedule set next_slot = now() - interval '1 minute', due_at = now() - interval '1 minute'"
    )


def test_schedule_waits_for_its_slot(schedule):
    assert (state(schedule), causes(explained(schedule))) == ("waiting", ["not due"])
    assert "secret" not in str(explained(schedule))


def test_paused_schedule_is_resumed_by_the_named_statement(schedule):
    schedule.execute("select sluice.pause_schedule('nightly')")
    assert (state(schedule), causes(explained(schedule))) == ("paused", ["schedule paused"])

    assert commands(explained(schedule)) == ["pgsluice schedule set nightly paused=false"]
    schedule.execute("select sluice.pause_schedule('nightly', false)")

    assert causes(explained(schedule)) == ["not due"]


def test_late_schedule_names_the_missing_maintenance_until_it_fires(schedule):
    make_due(schedule)
    assert (state(schedule), causes(explained(schedule))) == ("late", ["late", "maintenance"])

    schedule.execute("select * from sluice.fire_schedules()")

    assert causes(explained(schedule)) == ["not due"]
    assert "It was last sent" in str(explained(schedule))


def test_failing_schedule_names_its_error_and_the_missing_queue(schedule, as_member):
    schedule.execute("select pgmq.drop_queue('orders')")
    make_due(schedule)
    schedule.execute("select * from sluice.fire_schedules()")

    assert state(schedule) == "failing"
    assert {"error", "no target"} <= set(causes(explained(schedule)))
    query = (
        "select detail ->> 'error' from sluice.explain_schedule('nightly') where cause = 'error'"
    )
    assert "does not exist" in str(as_member("sluice_reader", query))
    assert as_member("sluice_monitor", query) == [(None,)]

    schedule.execute("select pgmq.create('orders')")
    make_due(schedule)
    schedule.execute("select * from sluice.fire_schedules()")
    assert causes(explained(schedule)) == ["not due"]


def test_schedule_that_does_not_exist_is_an_error(connection):
    with pytest.raises(psycopg.Error, match="schedule 'nightly' does not exist"):
        connection.execute("select * from sluice.explain_schedule('nightly')")
