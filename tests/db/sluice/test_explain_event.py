"""Events, followed from their insert to the end of their batch. Covers _find_event."""

from __future__ import annotations

import time

import psycopg
import pytest

from support import value
from support.explaining import causes, explain


def explained(connection, ev_id):
    return explain(connection, "explain_event", "events", ev_id)


@pytest.fixture
def log(connection):
    connection.execute("select pgq.create_queue('events')")
    connection.execute("select pgq.register_consumer('events', 'c')")
    return connection


def insert(connection):
    return value(connection, "select pgq.insert_event('events', 't', 'secret')")


def state(connection, ev_id):
    return explained(connection, ev_id)[0].detail["state"]


def test_event_is_followed_from_its_insert_to_the_finished_batch(log):
    ev_id = insert(log)
    assert state(log, ev_id) == "before a tick"
    assert causes(explained(log, ev_id)) == ["before a tick", "not reached"]

    log.execute("select sluice.log_tick('events')")
    assert state(log, ev_id) == "readable"
    assert causes(explained(log, ev_id)) == ["not reached"]

    batch = value(log, "select pgq.next_batch('events', 'c')")
    assert causes(explained(log, ev_id)) == ["in open batch"]

    log.execute("select pgq.finish_batch(%s)", (batch,))
    assert causes(explained(log, ev_id)) == []
    assert "Consumer c has finished it" in str(explained(log, ev_id))
    assert "secret" not in str(explained(log, ev_id))


def test_retried_event_names_the_time_of_its_retry(log):
    ev_id = insert(log)
    log.execute("select sluice.log_tick('events')")
    batch = value(log, "select pgq.next_batch('events', 'c')")
    log.execute("select pgq.event_retry(%s, %s, 300)", (batch, ev_id))
    log.execute("select pgq.finish_batch(%s)", (batch,))

    assert causes(explained(log, ev_id)) == ["retry"]


@pytest.mark.parametrize("has_group", [False, True])
def test_event_of_a_transaction_that_commits_late_is_found(log, database, has_group):
    if has_group:
        log.execute("select sluice.create_group('events', 'g')")
    with database.connect(autocommit=False) as other:
        ev_id = insert(other)
        for _ in range(3):
            insert(log)
            log.execute("select sluice.log_tick('events')")
        assert state(log, ev_id) == "gone"
        other.commit()

    assert state(log, ev_id) == "before a tick"


def test_share_group_claims_it(log):
    log.execute("select sluice.create_group('events', 'g')")
    ev_id = insert(log)
    log.execute("select sluice.log_tick('events')")
    assert "not claimed" in causes(explained(log, ev_id))

    log.execute("select sluice.claim('events', 'g', 10)")
    assert "not claimed" not in causes(explained(log, ev_id))


def test_id_that_was_never_used_is_explained_by_the_newest(log):
    insert(log)

    assert state(log, 0) == "unknown"
    assert explained(log, 9)[0].fact == "Log events never had an event 9: the newest id is 1"
    with log.transaction(force_rollback=True):
        insert(log)
    assert state(log, 2) == "gone"
    with pytest.raises(psycopg.Error, match="event log 'missing' does not exist"):
        log.execute("select * from sluice.explain_event('missing', 1)")


@pytest.mark.slow
@pytest.mark.parametrize("has_group", [False, True])
def test_a_million_events_are_explained_within_a_tenth_of_a_second(log, has_group):
    if has_group:
        log.execute("select sluice.create_group('events', 'g')")
    for _ in range(20):
        log.execute(
            "insert into pgq.event_1_0 (ev_type, ev_data) select 't', n::text from generate_series(1, 50000) as n"
        )
        log.execute("select sluice.log_tick('events')")
    for query in (
        "select * from sluice.explain_event('events', 500500)",
        "select * from sluice.explain_event('events', 1000000)",
        "select * from sluice.explain_log('events')",
        "select * from sluice.explain_consumer('events', 'c')",
        *(["select * from sluice.explain_group('events', 'g')"] if has_group else []),
    ):
        taken = []
        for _ in range(5):
            start = time.perf_counter()
            log.execute(query)
            taken.append(time.perf_counter() - start)
        print(f"{query}: {min(taken) * 1000:.1f} ms")
        assert min(taken) < 0.1, f"{query}: {taken}"
