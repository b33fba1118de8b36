"""More in test_explain_consumer.py and tests/ops/test_doctor_logs.py."""

import pytest

from support import rows


@pytest.fixture
def log(connection):
    connection.execute("select pgq.create_queue('events')")
    return connection


def causes(connection):
    return [
        cause for (cause,) in rows(connection, "select cause from sluice.explain_ticks('events')")
    ]


def test_events_of_a_transaction_in_progress_do_not_wait_for_a_tick(log, database):
    log.execute("select sluice.lead('maintenance', pg_backend_pid(), '1 minute')")
    log.execute("update pgq.tick set tick_time = tick_time - interval '1 hour'")
    assert causes(log) == []
    with database.connect(autocommit=False) as other:
        other.execute("select pgq.insert_event('events', 't', 'd')")
        other.execute("update pgq.event_1 set ev_time = ev_time - interval '1 minute'")
        assert causes(log) == ["next tick"]
        other.commit()
    assert causes(log) == ["no tick", "maintenance"]


def test_event_that_is_committed_after_a_tick_with_a_higher_number_waits_for_a_tick(log, database):
    with database.connect(autocommit=False) as other:
        other.execute("select pgq.insert_event('events', 't', 'd')")
        log.execute("select pgq.insert_event('events', 't', 'd')")
        log.execute("select sluice.log_tick('events')")
        other.commit()
    log.execute("select sluice.lead('maintenance', pg_backend_pid(), '1 minute')")
    log.execute("update pgq.tick set tick_time = tick_time - interval '1 minute'")
    log.execute("update pgq.event_1 set ev_time = ev_time - interval '1 minute'")

    assert causes(log)[0] == "no tick"


def test_paused_ticker_and_closed_log_are_named(log):
    log.execute("update pgq.queue set queue_disable_insert = true")
    assert causes(log) == ["closed"]
    log.execute("update pgq.queue set queue_ticker_paused = true")
    assert causes(log) == ["ticker paused", "closed"]
