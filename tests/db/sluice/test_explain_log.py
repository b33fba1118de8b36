from __future__ import annotations

import psycopg
import pytest

from support.explaining import causes, explain


def explained(connection):
    return explain(connection, "explain_log", "events")


@pytest.fixture
def log(connection):
    connection.execute("select pgq.create_queue('events')")
    connection.execute("select pgq.register_consumer('events', 'c')")
    return connection


def test_consumers_that_are_behind_are_named_until_they_have_read(log):
    assert causes(explained(log)) == []
    log.execute("select pgq.insert_event('events', 't', 'd') from generate_series(1, 3)")
    log.execute("select sluice.log_tick('events')")

    assert causes(explained(log)) == ["consumer lag"]
    assert "The newest event id of log events is 3" in str(explained(log))

    log.execute("select pgq.finish_batch(pgq.next_batch('events', 'c'))")
    assert causes(explained(log)) == []


def test_share_group_is_behind_by_the_events_that_it_has_not_claimed(log):
    log.execute("select pgq.unregister_consumer('events', 'c')")
    log.execute("select sluice.create_group('events', 'g')")
    log.execute("select pgq.insert_event('events', 't', 'd') from generate_series(1, 3)")
    log.execute("select sluice.log_tick('events')")
    log.execute("select from sluice.claim('events', 'g', 2)")
    assert [
        fact.detail["lag_events"] for fact in explained(log) if fact.cause == "consumer lag"
    ] == [1]

    log.execute("select from sluice.claim('events', 'g', 2)")
    assert causes(explained(log)) == []


def test_closed_log_is_named(log):
    log.execute("update pgq.queue set queue_disable_insert = true")
    assert causes(explained(log)) == ["closed"]
    log.execute("update pgq.queue set queue_disable_insert = false")
    assert causes(explained(log)) == []


def test_log_that_does_not_exist_is_an_error(connection, as_member):
    with pytest.raises(psycopg.Error, match="event log 'missing' does not exist"):
        connection.execute("select * from sluice.explain_log('missing')")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_writer", "select * from sluice.explain_log('missing')")
