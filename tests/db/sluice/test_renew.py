"""sluice.renew: extension of a claim's lease."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from support import replace_in, value
from support.share_groups import (
    acknowledge,
    claim,
    claimed,
    create_group,
    let_pass,
    open_claims,
    refused,
    renew,
    send,
)

CALL = "select sluice.renew('changes', 'workers', %s{})"


@pytest.fixture
def claim_id(connection, group) -> int:
    """A claim of the events 1 and 2, for two hours."""
    send(connection, *"ab")
    return claim(connection, 2, "2 hours")[0].claim_id


@pytest.mark.parametrize(
    ("lease", "length"), [(None, timedelta(seconds=30)), ("3 hours", timedelta(hours=3))]
)
def test_the_new_end_is_counted_from_now(connection, claim_id, lease, length):
    let_pass(connection, "2 hours")
    before = value(connection, "select clock_timestamp()")

    until = renew(connection, claim_id, lease)

    assert length <= until - before < length + timedelta(seconds=5)
    row = open_claims(connection)[claim_id]
    assert (row.lease_until, row.renewals, row.settled) == (until, 1, 0)


def test_a_lease_is_never_made_shorter(connection, claim_id):
    until = open_claims(connection)[claim_id].lease_until

    assert abs(renew(connection, claim_id, "1 second") - until) < timedelta(seconds=1)

    let_pass(connection)
    assert claimed(connection) == []


def test_renewed_lease_expires_at_its_new_end(connection, claim_id):
    let_pass(connection, "119 minutes")
    renew(connection, claim_id, "2 hours")

    let_pass(connection, "119 minutes")
    assert claimed(connection) == []
    let_pass(connection, "2 minutes")
    assert claimed(connection, 10) == [1, 2]


def test_it_is_renewed_as_often_as_one_likes(connection, claim_id):
    for _ in range(5):
        let_pass(connection, "119 minutes")
        renew(connection, claim_id, "2 hours")
        assert claimed(connection) == []

    assert acknowledge(connection, claim_id) == 2
    let_pass(connection, "3 hours")
    assert claimed(connection) == []


def test_expiry_of_a_renewed_lease_counts_an_attempt(connection, claim_id):
    renew(connection, claim_id, "2 hours")
    let_pass(connection, "3 hours")

    assert [(e.attempt, e.deliveries) for e in claim(connection, 10)] == [(2, 2), (2, 2)]


def test_expired_lease_is_renewed_unless_claimed_again(connection, claim_id):
    let_pass(connection, "3 hours")

    renew(connection, claim_id)

    assert claimed(connection, 10) == []


def test_a_lease_that_was_claimed_again_is_lost(connection, claim_id):
    let_pass(connection, "3 hours")
    assert claimed(connection, 1) == [1]

    error = refused(connection, CALL.format(""), claim_id)

    assert (error.sqlstate, error.diag.message_primary) == (
        "SG002",
        f"claim {claim_id} of share group 'workers' is no longer held",
    )
    assert error.diag.message_hint.startswith("roll back the work for it")


def test_remaining_events_of_a_claim_are_renewed(connection, claim_id):
    acknowledge(connection, claim_id, "accept", [1])
    renew(connection, claim_id, "5 hours")
    let_pass(connection, "3 hours")

    assert claimed(connection) == []
    acknowledge(connection, claim_id)
    assert refused(connection, CALL.format(""), claim_id).sqlstate == "SG002"


def test_a_rolled_back_renewal_is_none(connection, claim_id):
    with connection.transaction(force_rollback=True):
        renew(connection, claim_id, "10 hours")
    let_pass(connection, "3 hours")

    assert [(e.ev_id, e.attempt) for e in claim(connection, 10)] == [(1, 1), (2, 1)]


# The first renewal of a claim is one statement for each ledger


def check_first(connection):
    send(connection, *"ab")
    claim_id = claim(connection, 2, "2 hours")[0].claim_id
    until = open_claims(connection)[claim_id].lease_until

    assert abs(renew(connection, claim_id, "1 second") - until) < timedelta(seconds=1)
    renewed = renew(connection, claim_id, "5 hours")
    assert open_claims(connection)[claim_id].lease_until == renewed
    let_pass(connection, "3 hours")
    assert claimed(connection) == []
    let_pass(connection, "3 hours")
    assert [(e.ev_id, e.attempt) for e in claim(connection, 2)] == [(1, 2), (2, 2)]


def check_other_group(connection):
    create_group(connection, "others")
    send(connection, "a")
    (event,) = claim(connection, group="others")

    assert refused(connection, CALL.format(""), event.claim_id).sqlstate in ("SG002", "SG003")


def check_empty_claim(connection):
    """A claim that found nothing and was written to store what it has read."""
    send(connection, "a")
    acknowledge(connection, claim(connection)[0].claim_id, "retry", delay="1 hour")
    assert claim(connection) == []
    newest = value(connection, "select max(claim_id) from sluice.claim")

    assert refused(connection, CALL.format(""), newest).sqlstate == "SG003"


def check_clock(connection):
    """The rest of a lease is at most the whole lease, also after the clock was set back."""
    send(connection, "a")
    (event,) = claim(connection, 1, "2 hours")
    let_pass(connection, "-1 day")

    before = value(connection, "select clock_timestamp()")
    assert renew(connection, event.claim_id, "1 second") - before < timedelta(hours=3)


FIRST = {
    check.__name__: check
    for check in (check_first, check_other_group, check_empty_claim, check_clock)
}


@pytest.mark.parametrize("ledger", [0, 1])
@pytest.mark.parametrize("check", FIRST)
def test_each_ledger_has_a_statement_for_the_first_renewal(connection, group, check, ledger):
    connection.execute("update sluice.ledger set number = %s", [ledger])

    FIRST[check](connection)


FIRST_LEDGER = """        select c.group_id, c.claim_id, least(c.lease_until - c.clock_shift - v_now, c.lease_until - c.claimed_at) as time_left
        from sluice.claim_0 as c
        where c.group_id = g.group_id
          and c.claim_id = renew.claim_id
          and coalesce(c.lease_until, '-infinity') > '-infinity'
"""
# Bug → the check that finds it, a part of the statement for a ledger, and the bug that replaces it.
PLANTED = {
    "the lease is made shorter": (check_first, "least(", "-least("),
    "the claim of another group is found": (check_other_group, "c.group_id = g.group_id", "true"),
    "a claim without events is renewed": (
        check_empty_claim,
        "and coalesce(c.lease_until, '-infinity') > '-infinity'",
        "",
    ),
    "the rest is longer than the lease": (check_clock, ", c.lease_until - c.claimed_at)", ")"),
}


@pytest.mark.parametrize("ledger", [0, 1])
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(connection, group, bug, ledger):
    check, old, new = PLANTED[bug]
    statement = FIRST_LEDGER.replace("claim_0", f"claim_{ledger}")
    replace_in(
        connection,
        "sluice.renew(text,text,bigint,interval)",
        statement,
        statement.replace(old, new),
    )
    connection.execute("update sluice.ledger set number = %s", [ledger])

    with pytest.raises(AssertionError):
        check(connection)


@pytest.mark.parametrize("lease", ["0", "-1 hour", "101 years"])
def test_invalid_lease_is_refused(connection, claim_id, lease):
    error = refused(connection, CALL.format(f", '{lease}'"), claim_id)

    assert error.sqlstate == "22023"
    assert error.diag.message_hint


@pytest.mark.parametrize("number", [-1, 2**62, None])
def test_a_claim_that_never_was_is_refused(connection, claim_id, number):
    error = refused(connection, CALL.format(""), number)

    shown = "null" if number is None else number
    assert (error.sqlstate, error.diag.message_primary) == (
        "SG003",
        f"share group 'workers' has no claim {shown}",
    )


def test_unknown_names_are_named(connection, claim_id):
    query = "select sluice.renew({}, %s)"
    assert refused(connection, query.format("'none', 'workers'"), claim_id).sqlstate == "PQ001"
    assert refused(connection, query.format("'changes', 'none'"), claim_id).sqlstate == "SG001"


@pytest.mark.parametrize("member", ["pgq_reader", "sluice_reader", "pgq_admin", "sluice_admin"])
def test_readers_renew(connection, claim_id, as_member, member):
    assert as_member(member, f"select sluice.renew('changes', 'workers', {claim_id}) > now()") == [
        (True,)
    ]


@pytest.mark.parametrize("member", ["pgq_writer", "sluice_writer", "sluice_monitor"])
def test_other_roles_cannot_renew(connection, claim_id, as_member, member):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member(member, f"select sluice.renew('changes', 'workers', {claim_id})")
