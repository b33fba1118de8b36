"""sluice.schedule with an event: recurring events in a log."""

import psycopg
import pytest

from support import rows
from support.schedules import due_since, fire, state

EVENT = '{"ev_type": "tick", "ev_data": "{}", "ev_extra1": null, "ev_extra4": "x"}'
CALL = f"select sluice.schedule('nightly', 'changes', event => '{EVENT}', every => '1 hour')"


def test_each_slot_is_an_event(connection):
    connection.execute("select pgq.create_queue('changes')")

    assert rows(connection, CALL) == [(True,)]
    assert rows(connection, CALL) == [(False,)]
    due_since(connection, "90 minutes")
    ((name, slot, ev_id, error),) = fire(connection)

    assert (name, error) == ("nightly", None)
    assert state(connection, "target") == "log"
    assert state(connection, "event") == {"ev_type": "tick", "ev_data": "{}", "ev_extra4": "x"}
    assert rows(
        connection,
        "select ev_id, ev_type, ev_data, ev_extra1, ev_extra4 from pgq.event_1",
    ) == [(ev_id, "tick", "{}", None, "x")]
    assert state(connection, "last_slot") == slot


def test_a_missing_log_is_named(connection):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(CALL)

    assert caught.value.sqlstate == "PQ001"
    assert "event log 'changes' does not exist" in str(caught.value)


@pytest.mark.parametrize("event", ['{"by": "x"}', '{"ev_type": 1}', "[]", '"tick"'])
def test_an_event_that_is_no_object_of_texts_is_refused(connection, event):
    connection.execute("select pgq.create_queue('changes')")

    with pytest.raises(psycopg.errors.InvalidParameterValue):
        connection.execute(
            f"select sluice.schedule('nightly', 'changes', event => '{event}', every => '1 hour')"
        )


def test_a_schedule_with_a_message_and_an_event_is_refused(connection):
    connection.execute("select pgq.create_queue('changes')")

    with pytest.raises(psycopg.errors.InvalidParameterValue, match="a message and an event"):
        connection.execute(CALL.replace("event", "message => '1', event", 1))


def test_a_log_that_is_dropped_or_closed_keeps_the_slot_waiting(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(CALL)
    due_since(connection, "90 minutes")
    connection.execute("update pgq.queue set queue_disable_insert = true")
    ((_, closed, ev_id, error),) = fire(connection)
    assert (ev_id, error is not None) == (None, True)
    connection.execute("select pgq.drop_queue('changes')")
    connection.execute("update sluice.schedule set due_at = now()")
    ((_, dropped, ev_id, error),) = fire(connection)
    assert (dropped, ev_id, "changes" in error or "queue" in error) == (closed, None, True)


def test_only_an_admin_creates_fires_and_drops_it(connection, role):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(f"grant sluice_admin to {role}")
    connection.execute(f"set role {role}")

    assert rows(connection, CALL) == [(True,)]
    assert rows(connection, "select sluice.pause_schedule('nightly')") == [(True,)]
    assert rows(connection, "select sluice.pause_schedule('nightly', false)") == [(True,)]
    assert rows(connection, "select sluice.run_schedule('nightly')") == [(1,)]
    due_since(connection, "30 minutes")
    assert [(ev_id, error) for _, _, ev_id, error in fire(connection)] == [(2, None)]
    due_since(connection, "20 minutes")
    assert [done for _, _, done, _ in rows(connection, "select * from sluice.maintain()")] == [True]
    assert rows(connection, "select sluice.unschedule('nightly')") == [(True,)]
    connection.execute("reset role")
