"""sluice.next_group_due: the time from which a claim may find events without a new event."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from support import rows, value
from support.log import delay_event, error_of
from support.share_groups import acknowledge, claim, create_group, let_pass, renew, send, send_many


def due(connection, after=None):
    """Return the seconds until the due time by the server's clock, or None."""
    ((at, asked_at),) = rows(
        connection,
        "select due, clock_timestamp() from sluice.next_group_due('changes', 'workers', %s) as due",
        after,
    )
    return None if at is None else (at - asked_at).total_seconds()


def nearly(seconds):
    return pytest.approx(seconds, abs=5)


def test_nothing_is_due_where_nothing_was_claimed(connection, group):
    assert due(connection) is None
    send_many(connection, 3)
    assert due(connection) is None, "new events are announced and have no due time"


def test_the_lease_of_what_is_not_settled_ends(connection, group):
    send_many(connection, 3)
    first, second = claim(connection, 1, "100 s"), claim(connection, 1, "50 s")

    assert due(connection) == nearly(50)
    acknowledge(connection, second[0].claim_id)
    assert due(connection) == nearly(100)
    acknowledge(connection, first[0].claim_id)
    assert due(connection) is None


def test_retried_event_is_due_after_its_back_off(connection, group):
    send(connection, "a")
    (event,) = claim(connection)
    acknowledge(connection, event.claim_id, "retry", delay="200 s")
    assert due(connection) <= 0, "until a claim has read the retry"
    assert claim(connection) == []

    assert due(connection) == nearly(200)
    let_pass(connection, "150 s")
    assert due(connection) == nearly(50)


def test_a_renewed_lease_is_looked_at_at_its_first_end_and_then_at_its_last(connection, group):
    send(connection, "a")
    (event,) = claim(connection, 1, "10 s")
    renew(connection, event.claim_id, "100 s")
    assert due(connection) == nearly(10)
    let_pass(connection, "11 s")
    assert claim(connection) == []

    assert due(connection) == nearly(89)


def test_a_delayed_event_of_the_log_is_due(connection, group):
    connection.execute("select pgq.create_queue('other')")
    connection.execute("select sluice.insert_event('other', 't', 'd', delay => interval '20 s')")
    assert due(connection) is None, "events of other logs are ignored"

    connection.execute("select sluice.insert_event('changes', 't', 'd', delay => interval '30 s')")
    assert due(connection) == nearly(30)


def test_time_due_since_the_last_check_is_not_skipped(connection, group):
    looked_at = value(connection, "select clock_timestamp()")
    delay_event(connection, "soon")
    due_at = value(connection, "select max(ev_retry_after) from pgq.retry_entry")
    let_come = "select clock_timestamp() > %s"
    while not value(connection, let_come, due_at):
        pass

    assert due(connection, looked_at) <= 0
    assert due(connection, due_at + timedelta(microseconds=1)) is None


def test_a_key_that_waits_for_its_event_is_due_with_it(connection):
    connection.execute("select pgq.create_queue('changes')")
    create_group(connection, key="ev_data", backoff_jitter=False)
    send(connection, "a", "a")
    (event,) = claim(connection)
    acknowledge(connection, event.claim_id, "retry", delay="60 s")
    assert claim(connection, 5) == []

    assert due(connection) == nearly(60)


def test_a_group_that_is_not_there_is_an_error(connection, group):
    assert error_of(connection, "select sluice.next_group_due('changes', 'nobody')")[0] == "SG001"


@pytest.mark.slow
def test_after_many_settled_claims_it_costs_no_more_than_a_look_at_a_hundred(
    connection, group, buffers
):
    send_many(connection, 500)
    for _ in range(500):
        (event,) = claim(connection)
        acknowledge(connection, event.claim_id)

    assert due(connection) is not None, "the time of the next check"
    assert buffers("select sluice.next_group_due('changes', 'workers')") < 1_500


def test_readers_may_ask_and_writers_not(connection, group, as_member):
    query = "select sluice.next_group_due('changes', 'workers')"

    for member_of in ("pgq_admin", "pgq_reader", "sluice_admin", "sluice_reader"):
        assert as_member(member_of, query) == [(None,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_writer", query)
