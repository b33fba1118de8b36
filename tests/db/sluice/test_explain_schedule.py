from __future__ import annotations

import psycopg
import pytest

from support import rows

FACTS = "select section, fact, at, detail from sluice.explain_schedule('nightly') order by ordinal"


@pytest.fixture
def schedule(connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute(
        "select sluice.schedule('nightly', 'orders', '{\"secret\": 1}', every => '1 hour')"
    )
    return connection


def causes(connection):
    return [d["cause"] for section, *_, d in rows(connection, FACTS) if section == "reason"]


def state(connection):
    return rows(connection, FACTS)[0][3]["state"]


def make_due(connection):
    """Move the next slot into the past, as if no process had fired it."""
    connection.execute(
        "update sluice.schedule set next_slot = now() - interval '1 minute', due_at = now() - interval '1 minute'"
    )


def test_schedule_waits_for_its_slot(schedule):
    assert (state(schedule), causes(schedule)) == ("waiting", ["not due"])
    assert "secret" not in str(rows(schedule, FACTS))


def test_paused_schedule_is_resumed_by_the_named_statement(schedule):
    schedule.execute("select sluice.pause_schedule('nightly')")
    assert (state(schedule), causes(schedule)) == ("paused", ["paused"])

    (sql,) = (d["sql"] for *_, d in rows(schedule, FACTS) if "sql" in d)
    schedule.execute(sql)

    assert causes(schedule) == ["not due"]


def test_late_schedule_names_the_missing_maintenance_until_it_fires(schedule):
    make_due(schedule)
    assert (state(schedule), causes(schedule)) == ("late", ["late", "no maintenance"])

    schedule.execute("select * from sluice.fire_schedules()")

    assert causes(schedule) == ["not due"]
    assert "It was last sent" in str(rows(schedule, FACTS))


def test_failing_schedule_names_its_error_and_the_missing_queue(schedule, as_member):
    schedule.execute("select pgmq.drop_queue('orders')")
    make_due(schedule)
    schedule.execute("select * from sluice.fire_schedules()")

    assert state(schedule) == "failing"
    assert {"error", "no target"} <= set(causes(schedule))
    query = "select fact from sluice.explain_schedule('nightly')"
    assert "Its last attempt failed: " in str(as_member("sluice_reader", query))
    assert "Its last attempt failed'" in str(as_member("sluice_monitor", query))

    schedule.execute("select pgmq.create('orders')")
    make_due(schedule)
    schedule.execute("select * from sluice.fire_schedules()")
    assert causes(schedule) == ["not due"]


def test_schedule_that_does_not_exist_is_an_error(connection):
    with pytest.raises(psycopg.Error, match="schedule 'nightly' does not exist"):
        connection.execute("select * from sluice.explain_schedule('nightly')")
