"""sluice.unpark_key: the events of a parked key are redelivered in log order."""

from __future__ import annotations

from support import rows, value
from support.log import error_of
from support.share_groups import acknowledge, claim, let_pass
from support.share_keys import blocked, claimed_keys, make_keyed, send_keys, unpark


def park(connection, keys: str = "aab") -> None:
    """Retry the first event of the key `a`, which parks the key."""
    make_keyed(connection, "park")
    send_keys(connection, keys)
    claim_id, _ = claimed_keys(connection, 1)
    acknowledge(connection, claim_id, "retry", error="broken")
    acknowledge(connection, claimed_keys(connection)[0])


def test_unparked_key_is_redelivered_with_attempts_reset(connection):
    park(connection)
    send_keys(connection, "a")
    assert claimed_keys(connection) == (None, "")

    assert unpark(connection, "a") == 3
    events = claim(connection, 10)
    assert [(e.ev_id, e.attempt, e.deliveries, e.redriven) for e in events] == [
        (1, 1, 1, 1),
        (2, 1, 1, 0),
        (4, 1, 1, 0),
    ]
    assert value(connection, "select count(*) from sluice.dead_letter") == 0
    assert blocked(connection) == {}


def test_retried_event_behind_the_parked_one_is_redriven_with_it(connection):
    make_keyed(connection, "park")
    send_keys(connection, "aa")
    acknowledge(connection, claimed_keys(connection)[0], "retry", delay="0 hours")
    acknowledge(connection, claimed_keys(connection, 1)[0], "release", delay="1 hour")
    connection.execute("select sluice.maintain_groups()")

    assert unpark(connection, "a") == 1
    events = claim(connection, 10)
    assert [(e.ev_id, e.attempt, e.deliveries, e.redriven) for e in events] == [
        (1, 1, 1, 1),
        (2, 1, 1, 1),
    ]


def test_later_messages_of_the_key_follow(connection):
    park(connection)
    unpark(connection, "a")
    send_keys(connection, "a")

    assert claimed_keys(connection, 1)[1] == "a1"
    assert claimed_keys(connection) == (None, "")


def test_another_key_stays_parked(connection):
    park(connection)
    send_keys(connection, "cc")
    claim_id, _ = claimed_keys(connection)
    acknowledge(connection, claim_id, "retry", [5])
    assert claimed_keys(connection) == (None, "")

    assert unpark(connection, "a") == 2
    acknowledge(connection, claim_id)
    assert set(blocked(connection)) == {"c"}


def test_while_a_claim_has_an_earlier_event_of_the_key_they_wait(connection):
    make_keyed(connection, "park")
    send_keys(connection, "aaa")
    claim_id, _ = claimed_keys(connection)
    acknowledge(connection, claim_id, "retry", [2])
    assert claimed_keys(connection) == (None, "")

    assert unpark(connection, "a") == 2
    assert claimed_keys(connection) == (None, "")
    acknowledge(connection, claim_id)
    assert claimed_keys(connection)[1] == "a2 a3"


def test_rejected_event_of_another_key_stays_dead(connection):
    make_keyed(connection, "park")
    send_keys(connection, "ab")
    claim_id, _ = claimed_keys(connection)
    acknowledge(connection, claim_id, "retry", [1])
    acknowledge(connection, claim_id, "reject")
    claimed_keys(connection)

    assert unpark(connection, "a") == 1
    assert rows(connection, "select msg_id, reason from sluice.dead_letter") == [(2, "rejected")]


def test_a_key_that_is_not_parked_stays_as_it_is(connection):
    park(connection)

    assert unpark(connection, "b") == 0
    assert unpark(connection, None) == 0
    assert unpark(connection, "a") == 2
    assert unpark(connection, "a") == 0
    let_pass(connection)
    assert claimed_keys(connection)[1] == "a1 a2"


def test_only_admins_may(connection, role):
    park(connection)
    connection.execute(f"grant sluice_reader to {role}")
    connection.execute(f"set role {role}")

    query = "select sluice.unpark_key('changes', 'workers', 'a')"
    assert error_of(connection, query)[0] == "42501"
    connection.execute("reset role")
    connection.execute(f"grant sluice_admin to {role}")
    connection.execute(f"set role {role}")
    assert value(connection, query) == 2
