"""sluice.list_claims: the open claims of a share group and their leases."""

from __future__ import annotations

from datetime import timedelta

from support import rows, value
from support.log import error_of
from support.share_groups import (
    acknowledge,
    claim,
    claimed,
    create_group,
    let_pass,
    open_claims,
    renew,
    send_many,
)


def test_open_claims_are_listed_oldest_first(connection, group):
    send_many(connection, 10)
    before = value(connection, "select clock_timestamp()")
    first, second = claim(connection, 3), claim(connection, 2, "1 hour")

    found = rows(
        connection,
        "select claim_id, events, settled, renewals, lease_until from sluice.list_claims('changes', 'workers')",
    )

    assert found == [
        (first[0].claim_id, 3, 0, 0, first[0].lease_until),
        (second[0].claim_id, 2, 0, 0, second[0].lease_until),
    ]
    after = value(connection, "select clock_timestamp()")
    assert all(before <= row.claimed_at <= after for row in open_claims(connection).values())


def test_settled_claim_is_no_longer_listed(connection, group):
    send_many(connection, 10)
    first, second, third = (claim(connection, 3)[0].claim_id for _ in range(3))
    acknowledge(connection, second)
    acknowledge(connection, first, "accept", [1])
    acknowledge(connection, third, "retry")

    assert {n: c.settled for n, c in open_claims(connection).items()} == {first: 1}


def test_expired_claim_is_removed_by_the_next_claim(connection, group):
    send_many(connection, 2)
    (event,) = claim(connection)
    let_pass(connection)
    (row,) = open_claims(connection).values()
    assert row.lease_until == event.lease_until - timedelta(hours=1)

    (again,) = claim(connection)

    assert list(open_claims(connection)) == [again.claim_id]


def test_a_renewal_is_counted_and_its_end_shown(connection, group):
    send_many(connection, 1)
    (event,) = claim(connection)
    for _ in range(2):
        until = renew(connection, event.claim_id, "2 hours")

    (row,) = open_claims(connection).values()
    assert (row.renewals, row.lease_until, row.settled) == (2, until, 0)


def test_redeliveries_count_as_events(connection, group):
    send_many(connection, 3)
    acknowledge(connection, claim(connection, 2)[0].claim_id, "release")

    assert claimed(connection, 3) == [1, 2, 3]
    assert [row.events for row in open_claims(connection).values()] == [3]


def test_groups_are_independent(connection, group):
    create_group(connection, "others")
    send_many(connection, 1)
    claim(connection)

    assert open_claims(connection, "others") == {}


def test_unknown_names_are_named(connection, group):
    assert error_of(connection, "select sluice.list_claims('none', 'workers')")[0] == "PQ001"
    assert error_of(connection, "select sluice.list_claims('changes', 'none')")[0] == "SG001"
