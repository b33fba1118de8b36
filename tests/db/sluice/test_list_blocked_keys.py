"""sluice.list_blocked_keys, with _waiting_turns: blocked keys, the reason, since when, how many."""

from __future__ import annotations

from support import value
from support.log import error_of
from support.share_groups import acknowledge, let_pass
from support.share_keys import blocked, claimed_keys, make_keyed, send_keys


def test_a_key_that_a_claim_has_keeps_others_waiting(connection):
    make_keyed(connection)
    send_keys(connection, "aabaa")
    before = value(connection, "select clock_timestamp()")
    claim_id, _ = claimed_keys(connection, 2)
    assert blocked(connection) == {}
    claimed_keys(connection)

    (row,) = blocked(connection).values()
    assert (row.key, row.reason, row.waiting, row.claim_id) == ("a", "claimed", 2, claim_id)
    assert (row.ev_id, row.due_at) == (None, None)
    assert before < row.since < value(connection, "select clock_timestamp()")


def test_key_is_blocked_by_its_event_pending_redelivery(connection):
    make_keyed(connection)
    send_keys(connection, "aaa")
    claim_id, _ = claimed_keys(connection, 2)
    acknowledge(connection, claim_id, "retry", delay="1 hour")
    claimed_keys(connection)

    (row,) = blocked(connection).values()
    assert (row.key, row.reason, row.waiting, row.claim_id, row.ev_id) == (
        "a",
        "retrying",
        2,
        None,
        1,
    )
    assert row.due_at > row.since
    let_pass(connection)
    assert blocked(connection) == {}


def test_parked_key_waits_for_unpark_key(connection):
    make_keyed(connection, "park")
    send_keys(connection, "aaab")
    claim_id, _ = claimed_keys(connection)
    acknowledge(connection, claim_id, "retry", [2])
    acknowledge(connection, claim_id)
    claimed_keys(connection)

    (row,) = blocked(connection).values()
    assert (row.key, row.reason, row.waiting, row.ev_id, row.due_at) == ("a", "parked", 1, 2, None)


def test_a_key_whose_event_is_skipped_is_not_blocked(connection):
    make_keyed(connection, "skip")
    send_keys(connection, "aa")
    claim_id, _ = claimed_keys(connection, 1)
    acknowledge(connection, claim_id, "retry", delay="1 hour")
    claimed_keys(connection)

    assert blocked(connection) == {}


def test_an_unknown_group_is_refused(connection):
    make_keyed(connection)

    assert (
        error_of(connection, "select sluice.list_blocked_keys('changes', 'nobody')")[0] == "SG001"
    )
    assert error_of(connection, "select sluice.list_blocked_keys('nothing', 'x')")[0] == "PQ001"


def test_readers_may_list_keys_and_those_who_watch_may_not(connection, role):
    make_keyed(connection)
    connection.execute(f"grant sluice_monitor to {role}")
    connection.execute(f"set role {role}")
    assert (
        error_of(connection, "select sluice.list_blocked_keys('changes', 'workers')")[0] == "42501"
    )
    connection.execute("reset role")
    connection.execute(f"grant sluice_reader to {role}")
    connection.execute(f"set role {role}")

    assert blocked(connection) == {}
