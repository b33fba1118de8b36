"""Checks of logs, groups, pipelines, schedules and maintenance: each cause is made, reported, and corrected."""

from __future__ import annotations

import sys

import pytest

from support import value, wait_until
from support.doctor import QUIET, seen
from support.processes import running


@pytest.fixture
def log(connection):
    connection.execute(
        "select pgq.create_queue('changes'), pgq.register_consumer('changes', 'lake')"
    )
    connection.execute(
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0', queue_rotation_period = '0'"
    )
    return connection


def insert_and_tick(connection, count=1):
    connection.execute(
        "select count(pgq.insert_event('changes', 't', repeat('x', 1000))) from generate_series(1, %s)",
        (count,),
    )
    connection.execute("select pgq.force_tick('changes')")
    connection.execute("select pgq.ticker('changes')")


@pytest.fixture
def maintaining(database_18, tmp_path):
    def maintaining():
        command = [sys.executable, "-m", "pgsluice", "maintain"]
        return running(command, tmp_path, PGSLUICE_DSN=database_18.url)

    return maintaining


def age(log, interval):
    """Make the ticks of the log and its events older."""
    log.execute("update pgq.tick set tick_time = tick_time - %s::interval", (interval,))
    log.execute("update pgq.event_1 set ev_time = ev_time - %s::interval", (interval,))


@pytest.mark.slow
def test_log_that_no_process_ticks_is_reported_until_maintenance_runs(doctor, log, maintaining):
    insert_and_tick(log)
    assert seen(doctor.finding("ticks")) == QUIET
    age(log, "10 minutes")
    found = doctor.finding("ticks")
    assert (found.status, found.commands) == ("fail", ("pgsluice maintain",))
    assert "log 'changes': no process ticks, the last was" in found.what

    with maintaining():
        wait_until(
            lambda: value(log, "select is_active from sluice.leader('maintenance')"), "a leader"
        )
        assert seen(doctor.finding("ticks")) == QUIET  # without a tick, as the log is idle
        assert value(log, "select ticker_lag > '9 minutes' from pgq.get_queue_info('changes')")


def test_events_without_a_tick_are_reported_also_if_maintenance_has_a_leader(doctor, log):
    insert_and_tick(log)
    log.execute("select sluice.lead('maintenance', pg_backend_pid(), '1 minute')")
    log.execute("select pgq.insert_event('changes', 't', 'd')")
    log.execute("update pgq.tick set tick_time = tick_time - interval '10 minutes'")
    assert seen(doctor.finding("ticks")) == QUIET  # the event has just been inserted

    log.execute("update pgq.event_1 set ev_time = ev_time - interval '1 minute'")
    found = doctor.finding("ticks")

    assert found.status == "fail"
    log.execute("select sluice.log_tick('changes')")
    assert seen(doctor.finding("ticks")) == QUIET


def test_paused_ticker_is_reported_until_it_resumes(doctor, log):
    log.execute("update pgq.queue set queue_ticker_paused = true")

    found = doctor.finding("ticks", tick_s=0)

    assert "log 'changes': ticks are paused" in found.what
    doctor.run(found)
    insert_and_tick(log)
    assert seen(doctor.finding("ticks", tick_s=5)) == QUIET


def test_log_with_an_external_ticker_is_not_reported(doctor, log):
    log.execute("update pgq.queue set queue_external_ticker = true")

    assert seen(doctor.finding("ticks", tick_s=0)) == QUIET


def test_dead_consumer_that_keeps_segments_is_reported_until_it_is_unregistered(doctor, log):
    for _ in range(4):
        insert_and_tick(log, 100)
        log.execute("select sluice.rotate()")
    assert value(log, "select pinned_bytes > 0 from sluice.list_consumers('changes')")
    assert seen(doctor.finding("consumers")) == QUIET

    found = doctor.finding("consumers", consumer_idle_s=0, pinned_bytes=0)

    assert found.status == "fail"  # a hundred times the limit
    assert "consumer 'lake' of log 'changes' has not read for" in found.what
    assert found.commands == ("pgsluice log unregister changes lake",)
    doctor.run(found)
    assert seen(doctor.finding("consumers", consumer_idle_s=0, pinned_bytes=0)) == QUIET


def test_consumer_that_does_not_read_is_reported_until_it_has_read(doctor, log):
    insert_and_tick(log)
    found = doctor.finding("consumers", unread_s=0)
    assert found.status == "warn"
    batch = value(log, "select pgq.next_batch('changes', 'lake')")
    while batch is not None:
        log.execute("select pgq.finish_batch(%s)", (batch,))
        batch = value(log, "select pgq.next_batch('changes', 'lake')")

    assert seen(doctor.finding("consumers", unread_s=0)) == QUIET


def test_consumer_whose_events_were_dropped_is_reported_until_it_is_unregistered(doctor, log):
    log.execute("select sluice.set_log_options('changes', '{\"max_lag_events\": 1}')")
    for _ in range(4):
        insert_and_tick(log, 100)
        log.execute("select sluice.rotate()")
    wait_until(
        lambda: (
            log.execute("select sluice.rotate()") is not None
            and value(log, "select lost is not null from sluice.list_consumers('changes')")
        ),
        "the events to be dropped",
    )

    found = doctor.finding("consumers")

    assert found.status == "fail"
    assert "log 'changes' dropped events of consumer 'lake'" in found.what
    doctor.run(found)
    assert seen(doctor.finding("consumers")) == QUIET


def test_share_group_that_no_consumer_claims_is_reported_until_one_does(doctor, log):
    log.execute("select sluice.create_group('changes', 'mail')")
    insert_and_tick(log)
    assert seen(doctor.finding("share_groups")) == QUIET

    found = doctor.finding("share_groups", undrained_s=0)

    assert found.status == "warn"
    assert "unclaimed events: " in found.what
    assert found.commands == ("pgsluice worker run MODULE:APP --queues changes",)
    assert "gives up its events and retries" in found.why
    log.execute("select from sluice.claim('changes', 'mail', 10)")
    assert seen(doctor.finding("share_groups", undrained_s=0)) == QUIET


def test_share_group_with_claimed_events_is_not_reported(doctor, log):
    log.execute("select sluice.create_group('changes', 'mail')")
    insert_and_tick(log)
    assert value(log, "select count(*) from sluice.claim('changes', 'mail', 10, '1 minute')") == 1

    assert seen(doctor.finding("share_groups", undrained_s=0)) == QUIET


def test_parked_key_of_a_group_is_reported_until_it_is_unparked(doctor, log):
    log.execute(
        """select sluice.create_group('changes', 'mail', '{"key": "ev_extra1", "when_waiting": "park"}')"""
    )
    for _ in range(2):
        log.execute("select pgq.insert_event('changes', 't', '1', 'customer 7', null, null, null)")
    log.execute("select pgq.force_tick('changes')")
    log.execute("select pgq.ticker('changes')")
    claim_id = value(log, "select claim_id from sluice.claim('changes', 'mail', 1)")
    assert seen(doctor.finding("parked_group_keys")) == QUIET
    log.execute("select sluice.acknowledge('changes', 'mail', %s, 'retry')", (claim_id,))
    log.execute("select sluice.claim('changes', 'mail', 1)")

    found = doctor.finding("parked_group_keys")

    assert found.commands == ("pgsluice group unpark changes mail 'customer 7'",)
    doctor.run(found)
    assert seen(doctor.finding("parked_group_keys")) == QUIET


def test_event_type_is_reported_while_it_waits_for_a_worker_or_is_accepted_without_a_handler(
    doctor, log
):
    log.execute("select sluice.create_group('changes', 'mail')")
    log.execute("select sluice.declare_types('changes', 'mail', 'shop', array['on_t'], array['t'])")
    insert_and_tick(log)
    assert seen(doctor.finding("event_types", undrained_s=0)) == QUIET
    log.execute("select sluice.claim('changes', 'mail', 1, null, true, array['paid'], false)")

    found = doctor.finding("event_types", undrained_s=0)
    assert found.commands == ("pgsluice worker run MODULE:APP --handlers on_t",)
    log.execute("select sluice.claim('changes', 'mail', 1, null, true, array['t'], false)")
    log.execute(
        "select sluice.note_unhandled('changes', 'mail', 'accept', array['x'], array[1::bigint])"
    )

    found = doctor.finding("event_types", undrained_s=0)
    assert (
        "no handler is declared for type 'x'; events of it that workers accepted: 1" in found.what
    )
    doctor.run(found)
    assert seen(doctor.finding("event_types", undrained_s=0)) == QUIET


def hold(connection):
    return value(
        connection,
        "select is_held from sluice.hold_pipeline('changes', 'lake', 'events', '/lake', %s)",
        connection.info.backend_pid,
    )


def test_stopped_pipeline_is_reported_until_it_has_caught_up(doctor, log, database_18):
    with database_18.connect() as session:
        assert hold(session)
        insert_and_tick(log)
        assert seen(doctor.finding("pipelines", unread_s=0)) == QUIET
    wait_until(
        lambda: not value(log, "select is_running from sluice.list_pipelines()"),
        "the session to end",
    )
    assert seen(doctor.finding("pipelines")) == QUIET

    found = doctor.finding("pipelines", unread_s=0)

    assert found.status == "warn"
    assert (
        "pipeline events of log 'changes'" in found.what
        or "into /lake has not run since" in found.what
    )
    assert found.commands == ("pgsluice pipeline run events --log changes --lake /lake",)


def test_pipeline_whose_consumer_is_gone_is_reported_until_it_is_forgotten(doctor, log):
    assert hold(log)
    assert seen(doctor.finding("pipelines")) == QUIET
    log.execute("select pgq.unregister_consumer('changes', 'lake')")

    found = doctor.finding("pipelines")

    assert (
        found.what
        == "consumer 'lake' of log 'changes', which feeds /lake, is gone: events are missing there"
    )
    doctor.run(found)
    assert seen(doctor.finding("pipelines")) == QUIET


@pytest.mark.slow
def test_late_schedule_is_reported_until_maintenance_runs(doctor, connection, maintaining):
    connection.execute("select pgmq.create('orders')")
    connection.execute("select sluice.schedule('often', 'orders', '{}', every => '1 second')")
    assert seen(doctor.finding("schedules")) == QUIET
    wait_until(
        lambda: doctor.finding("schedules", late_s=0.5).status == "warn", "the schedule to be late"
    )
    assert doctor.finding("schedules", late_s=0.5).commands == ("pgsluice maintain",)

    with maintaining():
        wait_until(
            lambda: seen(doctor.finding("schedules", late_s=0.5)) == QUIET, "the schedule to fire"
        )


def test_failing_schedule_is_reported_until_it_is_dropped(doctor, connection):
    connection.execute("select pgmq.create('orders')")
    connection.execute("select sluice.schedule('often', 'orders', '{}', every => '1 second')")
    connection.execute("drop table pgmq.q_orders")
    wait_until(
        lambda: (
            connection.execute("select sluice.fire_schedules()") is not None
            and value(connection, "select error is not null from sluice.list_schedules()")
        ),
        "the schedule to fail",
    )

    found = doctor.finding("schedules")

    assert "schedule 'often' fails: " in found.what
    connection.execute("select sluice.unschedule('often')")
    assert seen(doctor.finding("schedules")) == QUIET


@pytest.mark.slow
def test_unmaintained_partitions_are_reported_until_maintenance_runs(
    doctor, connection, maintaining
):
    connection.execute("select pgmq.create_partitioned('by_id', '100', '1000')")
    assert seen(doctor.finding("maintenance")) == QUIET
    found = doctor.finding("maintenance", overdue_s=0)
    assert (found.status, found.commands) == ("fail", ("pgsluice maintain",))
    assert "no process leads maintenance" in found.what

    with maintaining():
        wait_until(
            lambda: (
                "leads maintenance" in doctor.finding("maintenance", overdue_s=0).what
                and "no process" not in doctor.finding("maintenance", overdue_s=0).what
                and seen(doctor.finding("maintenance", overdue_s=15)) == QUIET
            ),
            "maintenance to run",
        )


def test_failed_maintenance_is_reported_until_it_succeeds(doctor, connection):
    assert seen(doctor.finding("failures")) == QUIET
    connection.execute("alter table sluice.idempotency_key rename to away")
    connection.execute("select sluice.maintain()")
    found = doctor.finding("failures")
    assert found.status == "warn"
    assert "maintenance step keys has failed since" in found.what
    connection.execute("alter table sluice.away rename to idempotency_key")

    doctor.run(found)

    assert seen(doctor.finding("failures")) == QUIET
