"""sluice.next_group_due: the time from which a claim may find events without a new event."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from support import replace_in, rows, value
from support.log import delay_event, error_of
from support.share_groups import acknowledge, claim, create_group, let_pass, renew, send, send_many

FUNCTION = "sluice.next_group_due(text,text,timestamptz,text[],boolean)"


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


def is_due(connection):
    left = due(connection)
    return left is not None and left <= 0


def check_retry(connection):
    send(connection, "a")
    (event,) = claim(connection)
    acknowledge(connection, event.claim_id, "retry", delay="200 s")
    assert is_due(connection), "until a claim has read the retry"


def test_retried_event_is_due_after_its_back_off(connection, group):
    check_retry(connection)
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

    query = "select sluice.next_group_due('changes', 'workers')"
    let_pass(connection, "1 second")
    assert due(connection) is not None, "the time of the next check"
    after_a_second = buffers(query)
    assert after_a_second < 1_500

    (event,) = rows(
        connection, "select claim_id from sluice.claim_0 order by claim_id desc limit 1"
    )
    connection.execute(
        "update sluice.claim_0 set claimed_at = clock_timestamp() + '1 minute' where claim_id = %s",
        event,
    )
    connection.execute("update sluice.claim_0 set clock_shift = '1 minute'")
    assert buffers(query) < after_a_second / 4, "a group with a claim in the last second"


# The numbers of leases and delayed events that one call reads, reduced to 3.
FEW = [
    ("v_leases_max integer := 100;", "v_leases_max integer := 3;"),
    ("v_leases_max := 10;", "v_leases_max := 3;"),
    ("v_delayed_max constant integer := 1000;", "v_delayed_max constant integer := 3;"),
]


def check_behind(connection, seconds):
    """Each call returns a later time, and the last one the given time."""
    for old, new in FEW:
        replace_in(connection, FUNCTION, old, new)
    found: list[float | None] = []
    after = None
    while (left := due(connection, after)) is not None:
        assert found == [] or left > found[-1]
        found.append(left)
        after = value(connection, "select sluice.next_group_due('changes', 'workers', %s)", after)

    assert len(found) > 1
    assert found[-1] == nearly(seconds)


def check_open_lease_behind_settled_ones(connection):
    send_many(connection, 8)
    for number in range(7):
        (event,) = claim(connection, 1, f"{100 + number} s")
        acknowledge(connection, event.claim_id)
    claim(connection, 1, "200 s")

    check_behind(connection, 200)


def check_delayed_event_behind_those_of_another_log(connection):
    connection.execute("select pgq.create_queue('other')")
    delayed = "select sluice.insert_event(%s, 't', 'd', delay => make_interval(secs => %s))"
    for number in range(7):
        connection.execute(delayed, ("other", 100 + number))
    connection.execute(delayed, ("changes", 200))

    check_behind(connection, 200)


@pytest.mark.parametrize(
    "check",
    [check_open_lease_behind_settled_ones, check_delayed_event_behind_those_of_another_log],
)
def test_several_calls_find_the_due_time_behind_many_others(connection, group, check):
    check(connection)


def check_clock(connection):
    """The server's clock was set back since the last claim."""
    send(connection, "a")
    (event,) = claim(connection)
    acknowledge(connection, event.claim_id)
    assert claim(connection) == []
    let_pass(connection, "-1 hour")

    assert is_due(connection)


def test_the_next_claim_is_due_where_the_clock_was_set_back(connection, group):
    check_clock(connection)


@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        pytest.param(
            check_open_lease_behind_settled_ones,
            "or v_leases = v_leases_max",
            "",
            id="no more leases are read",
        ),
        pytest.param(
            check_delayed_event_behind_those_of_another_log,
            "case when count(*) = v_delayed_max then max(e.ev_retry_after) end",
            "null",
            id="no more delayed events are read",
        ),
        pytest.param(
            check_delayed_event_behind_those_of_another_log,
            "if pg_relation_size('pgq.retry_entry_0') + pg_relation_size('pgq.retry_entry_1') = 0",
            "if pg_relation_size('pgq.retry_entry_1') = 0",
            id="the entries of one table are not read",
        ),
        pytest.param(check_retry, "if found or", "if", id="outcomes are not waited for"),
        pytest.param(
            check_clock,
            "or clock_timestamp() + v_claim.clock_shift < v_claim.claimed_at",
            "",
            id="a clock that was set back is not noticed",
        ),
    ],
)
def test_a_planted_bug_is_found(connection, group, check, old, new):
    replace_in(connection, FUNCTION, old, new)

    with pytest.raises(AssertionError):
        check(connection)


def test_readers_may_ask_and_writers_not(connection, group, as_member):
    query = "select sluice.next_group_due('changes', 'workers')"

    for member_of in ("pgq_admin", "pgq_reader", "sluice_admin", "sluice_reader"):
        assert as_member(member_of, query) == [(None,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_writer", query)
