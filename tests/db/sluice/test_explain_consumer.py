"""Each reason is made to happen for real; when its cause is removed, it is no longer returned.

Covers explain_ticks.
"""

from __future__ import annotations

import psycopg
import pytest

from support import value
from support.explaining import causes, commands, explain


def explained(connection):
    return explain(connection, "explain_consumer", "events", "c")


@pytest.fixture
def log(connection):
    connection.execute("select pgq.create_queue('events')")
    connection.execute("select pgq.register_consumer('events', 'c')")
    return connection


def state(connection):
    return explained(connection)[0].detail["state"]


def insert(connection):
    connection.execute("select pgq.insert_event('events', 't', 'secret')")


def age_last_tick(connection, interval):
    """Make the newest tick older, as if no ticker had run since."""
    connection.execute(
        "update pgq.tick set tick_time = tick_time - %s::interval "
        "where tick_queue = (select queue_id from pgq.queue where queue_name = 'events')",
        (interval,),
    )


def test_consumer_without_new_events_is_up_to_date(log):
    assert causes(explained(log)) == ["up to date"]
    assert state(log) == "idle"


def test_events_wait_for_the_next_tick_and_then_for_the_consumer(log):
    insert(log)
    assert causes(explained(log)) == ["up to date", "next tick"]

    log.execute("select sluice.log_tick('events')")
    assert causes(explained(log)) == ["consumer lag"]

    batch = value(log, "select pgq.next_batch('events', 'c')")
    assert causes(explained(log)) == ["open batch", "consumer lag"]
    assert state(log) == "in batch"

    log.execute("select pgq.finish_batch(%s)", (batch,))
    assert causes(explained(log)) == ["up to date"]


def test_retried_event_that_a_tick_covers_waits_for_the_consumer(log):
    insert(log)
    log.execute("select from sluice.tick()")
    batch = value(log, "select pgq.next_batch('events', 'c')")
    log.execute("select pgq.event_retry(%s, 1, 0)", (batch,))
    log.execute("select pgq.finish_batch(%s)", (batch,))
    assert value(log, "select pgq.maint_retry_events()") == 1
    assert causes(explained(log)) == ["up to date", "next tick"]

    log.execute("select from sluice.tick()")
    assert causes(explained(log)) == ["consumer lag"]


def test_missing_tick_names_the_missing_maintenance(log, database):
    insert(log)
    age_last_tick(log, "1 minute")
    assert causes(explained(log)) == ["up to date", "next tick"]
    log.execute("update pgq.event_1 set ev_time = ev_time - interval '20 seconds'")

    assert causes(explained(log)) == ["up to date", "no tick", "maintenance"]

    with database.connect() as leader:
        leader.execute("select sluice.lead('maintenance', pg_backend_pid(), '1 s')")
        assert causes(explained(log))[1:] == ["no tick", "maintenance"]
        assert "Maintenance is led by pid " in str(explained(log))

    log.execute("select sluice.log_tick('events')")
    assert causes(explained(log)) == ["consumer lag"]


def test_idle_log_without_ticks_is_named_unless_maintenance_has_a_leader(log):
    age_last_tick(log, "5 minutes")

    log.execute("select sluice.lead('maintenance', pg_backend_pid(), '1 s')")
    assert causes(explained(log)) == ["up to date"]
    log.execute("select sluice.resign('maintenance', pg_backend_pid())")
    assert "no tick" in causes(explained(log))
    assert "Log events has no new events, and no ticks either" in str(explained(log))

    insert(log)
    assert "Consumers cannot read 1 new event of log events" in str(explained(log))
    log.execute("select sluice.log_tick('events')")
    assert "no tick" not in causes(explained(log))


def test_paused_ticker_is_named_with_the_statement_that_resumes_it(log):
    log.execute("select pgq.set_queue_config('events', 'ticker_paused', 'true')")
    assert causes(explained(log)) == ["up to date", "ticker paused"]

    assert commands(explained(log)) == ["pgsluice log set events ticker_paused=false"]
    log.execute("select pgq.set_queue_config('events', 'ticker_paused', 'false')")

    assert causes(explained(log)) == ["up to date"]


def test_failing_tick_is_named_until_it_succeeds(log):
    log.execute("select sluice._note_failure('tick', 'events', null, 'no space')")
    assert causes(explained(log)) == ["up to date", "maintenance failure"]

    log.execute("select sluice._note_failure('tick', 'events', null, null)")
    assert causes(explained(log)) == ["up to date"]


def test_dropped_position_is_named(log):
    log.execute("update pgq.position_0 set pos_lost = 'too far behind'")

    assert causes(explained(log))[0] == "position lost"
    assert state(log) == "lost"
    assert commands(explained(log)) == ["pgsluice log unregister events c"]


def rotate_behind_the_consumer(connection):
    """Fill segments that the consumer has not read."""
    connection.execute("update pgq.queue set queue_rotation_period = '0'")
    for _ in range(3):
        insert(connection)
        connection.execute("select sluice.log_tick('events')")
        connection.execute("select sluice.rotate()")
    assert value(connection, "select pinned_bytes > 0 from sluice.list_consumers('events')")


def test_absent_consumer_that_keeps_segments_is_named_with_the_command_that_unregisters_it(log):
    rotate_behind_the_consumer(log)
    assert causes(explained(log)) == ["consumer lag"]
    assert commands(explained(log)) == []
    log.execute("update pgq.position_0 set pos_active = now() - interval '2 hours'")

    for facts in (explained(log), explain(log, "explain_log", "events")):
        (lag,) = (fact for fact in facts if fact.cause == "consumer lag")
        assert "of segments (if it does not return, unregister it)" in lag.fact
        assert lag.commands == ("pgsluice log unregister events c",)

    log.execute("select pgq.unregister_consumer('events', 'c')")

    assert causes(explain(log, "explain_log", "events")) == []


def test_pipeline_is_named_while_a_session_holds_it_and_after(log, database):
    assert "pipeline" not in [fact.cause for fact in explained(log)]
    with database.connect() as holder:
        holder.execute(
            "select * from sluice.hold_pipeline('events', 'c', 'events', '/lake', pg_backend_pid())"
        )
        holder.execute("select sluice.report_pipeline('events', 'c', 7, now())")

        assert causes(explained(log)) == ["up to date"]
        assert explained(log)[1].detail["is_running"]
        shown = str(explained(log))
        assert "It last committed to the lake" in shown
        assert "7 rows since its start, by its last report" in shown

    log.execute("select pgq.insert_event('events', 't', 'd')")
    log.execute("select sluice.log_tick('events')")

    assert not explained(log)[1].detail["is_running"]
    assert causes(explained(log)) == ["pipeline not running", "consumer lag"]


def test_share_group_is_explained_as_one(log):
    log.execute("select sluice.create_group('events', 'g')")

    facts = explain(log, "explain_consumer", "events", "g")

    assert [fact.cause for fact in facts][:3] == ["share group", "created", "claim cursor"]


def test_monitors_may_explain_and_see_no_error_text(log, as_member):
    log.execute("select sluice._note_failure('tick', 'events', null, 'customer 5')")
    query = "select cause, detail::text from sluice.explain_consumer('events', 'c')"

    assert "customer 5" not in str(as_member("sluice_monitor", query))
    assert "customer 5" in str(as_member("sluice_reader", query))


def test_unknown_consumer_and_log_are_errors(log):
    with pytest.raises(psycopg.Error, match="consumer 'x' is not registered on event log 'events'"):
        log.execute("select * from sluice.explain_consumer('events', 'x')")
    with pytest.raises(psycopg.Error, match="event log 'missing' does not exist"):
        log.execute("select * from sluice.explain_consumer('missing', 'x')")
