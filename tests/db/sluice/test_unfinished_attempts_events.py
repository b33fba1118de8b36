"""sluice.unfinished_attempts: events of a claim that may have crashed their process."""

from __future__ import annotations

from support import value
from support.share_groups import (
    LOG,
    acknowledge,
    claim,
    claimed,
    create_group,
    let_pass,
    refused,
    send,
)


def suspects(connection, claim_id: int, group: str = "workers") -> list[int]:
    return value(
        connection,
        "select array(select sluice.unfinished_attempts(%s, %s, %s))",
        LOG,
        group,
        claim_id,
    )


def test_first_delivery_is_not_suspect(connection, group):
    send(connection, *"ab")
    (event, _) = claim(connection, 2)

    assert suspects(connection, event.claim_id) == []
    assert suspects(connection, event.claim_id + 1) == []


def test_events_with_an_expired_lease_are_listed_and_retried_ones_are_not(connection, group):
    send(connection, *"abc")
    (first, *_) = claim(connection, 3)
    acknowledge(connection, first.claim_id, "retry", [2], delay="0", error="trace")
    let_pass(connection)
    (again, *_) = claim(connection, 3)

    assert sorted(suspects(connection, again.claim_id)) == [1, 3]


def test_expired_claim_without_a_start_is_not_suspect(connection, group):
    send(connection, "a")
    claim(connection)
    let_pass(connection)
    (again,) = claim(connection)

    assert (again.attempt, again.deliveries) == (1, 2)
    assert suspects(connection, again.claim_id) == []


def test_a_release_keeps_the_suspicion_and_a_retry_ends_it(connection, group):
    send(connection, *"ab")
    (event, _) = claim(connection, 2)
    acknowledge(connection, event.claim_id, "accept", [2])
    let_pass(connection)
    (event,) = claim(connection)
    acknowledge(connection, event.claim_id, "release")
    (event,) = claim(connection)
    assert suspects(connection, event.claim_id) == [1]

    acknowledge(connection, event.claim_id, "retry", delay="0", error="trace")

    (event,) = claim(connection)
    assert suspects(connection, event.claim_id) == []


def test_events_of_keys_are_suspected_too(connection, group):
    create_group(connection, "keyed", key="ev_type")
    send(connection, *"ab")
    (event, _) = claim(connection, 2, group="keyed")
    acknowledge(connection, event.claim_id, "accept", [2], group="keyed")
    let_pass(connection)
    (event,) = claim(connection, group="keyed")

    assert suspects(connection, event.claim_id, "keyed") == [1]


def test_error_before_the_lease_expiry_is_kept(connection, group):
    create_group(connection, "b", max_attempts=3)
    send(connection, "a")
    (event,) = claim(connection, group="b")
    acknowledge(connection, event.claim_id, "retry", delay="0", error="trace", group="b")
    for _ in range(2):
        (event,) = claim(connection, group="b")
        connection.execute("select sluice.renew(%s, 'b', %s)", (LOG, event.claim_id))
        let_pass(connection)
    assert claimed(connection, group="b") == []

    error = value(connection, "select error from sluice.dead_letter where consumer_name = 'b'")
    assert error == "trace"


def test_an_unknown_group_is_named(connection, group):
    assert (
        refused(connection, "select sluice.unfinished_attempts(%s, 'none', 1)", LOG).sqlstate
        == "SG001"
    )
