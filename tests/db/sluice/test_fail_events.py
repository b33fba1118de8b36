"""sluice.fail_events, with sluice._settle and _dead_letter."""

from __future__ import annotations

import json

import pytest

from support import rows, value
from support.share_groups import GROUP, LOG, claim, create_group, make_log, refused, send

POLICY = {
    "max_attempts": 3,
    "backoff": "linear",
    "backoff_base": 60,
    "backoff_max": 600,
    "backoff_jitter": False,
}


def fail(connection, claim_id, *failures, policy=None):
    return rows(
        connection,
        "select * from sluice.fail_events(%s, %s, %s, %s, 'worker 1', %s)",
        *(LOG, GROUP, claim_id, json.dumps(failures), policy and json.dumps(policy)),
    )


def dead(connection):
    return rows(
        connection,
        "select msg_id, reason, error_type, error, trace, worker, attempts from sluice.dead_letter order by dead_letter_id",
    )


@pytest.fixture
def claimed(connection, group):
    """A claim of three events of a group with 5 attempts, 1 second base and jitter."""
    send(connection, "a", "b", "c")
    return claim(connection, 10)


def test_outcomes_are_those_of_the_group_in_the_order_of_the_failures(connection, claimed):
    first, second, third = (event.ev_id for event in claimed)
    decided = fail(
        connection,
        claimed[0].claim_id,
        {"ev_id": third, "error_type": "ValueError", "error": "no tray", "trace": "line 7"},
        {
            "ev_id": first,
            "reject": True,
            "reason": "bad shape",
            "error_type": "KeyError",
            "error": "id",
            "trace": "line 1",
        },
        {"ev_id": second, "delay": 60, "reason": "later"},
    )

    assert decided == [
        (third, "retry", 1, 1.0),
        (first, "dead", 1, None),
        (second, "retry", 1, 60.0),
    ]
    assert dead(connection) == [(first, "bad shape", "KeyError", "id", "line 1", "worker 1", 1)]
    assert rows(
        connection,
        "select ev_ids, delay, error from sluice.outcome where outcome = 'retry' order by ev_ids",
    ) == [
        ([second], value(connection, "select interval '60'"), "later"),
        ([third], None, "ValueError: no tray\nline 7"),
    ]


def test_policy_of_a_handler_sets_the_delay_and_lowers_the_attempts(connection, claimed):
    claim_id, ev_ids = claimed[0].claim_id, [event.ev_id for event in claimed]
    decided = fail(connection, claim_id, *({"ev_id": n} for n in ev_ids), policy=POLICY)
    assert decided == [(n, "retry", 1, 60.0) for n in ev_ids]

    send(connection, "d")
    policy = POLICY | {"max_attempts": 1}
    (event,) = claim(connection, 10)
    assert fail(connection, event.claim_id, {"ev_id": event.ev_id}, policy=policy) == [
        (event.ev_id, "dead", 1, None)
    ]
    assert [letter[:2] for letter in dead(connection)] == [(event.ev_id, "too many attempts")]


def test_policy_of_a_handler_does_not_raise_the_attempts_of_the_group(connection, group):
    connection.execute(
        "select sluice.set_group_options(%s, %s, %s)", (LOG, GROUP, '{"max_attempts": 1}')
    )
    send(connection, "a")
    (event,) = claim(connection)

    (decided,) = fail(connection, event.claim_id, {"ev_id": event.ev_id}, policy=POLICY)

    assert decided == (event.ev_id, "dead", 1, None)


def test_repetition_returns_the_outcomes_of_the_first_call(connection, claimed):
    claim_id, (first, second, _) = claimed[0].claim_id, (event.ev_id for event in claimed)
    failures = ({"ev_id": first}, {"ev_id": second, "reject": True})
    jittered = POLICY | {"backoff_jitter": True}
    decided = fail(connection, claim_id, *failures, policy=jittered)

    assert fail(connection, claim_id, *failures, policy=jittered) == decided
    assert 30 <= decided[0][3] <= 60
    assert len(dead(connection)) == 1


def test_event_with_another_outcome_is_refused_and_nothing_is_changed(connection, claimed):
    claim_id, (first, second, _) = claimed[0].claim_id, (event.ev_id for event in claimed)
    connection.execute(
        "select sluice.acknowledge(%s, %s, %s, 'accept', %s)", (LOG, GROUP, claim_id, [second])
    )

    error = refused(
        connection,
        "select sluice.fail_events(%s, %s, %s, %s)",
        *(LOG, GROUP, claim_id, json.dumps([{"ev_id": first}, {"ev_id": second}])),
    )

    assert error.sqlstate == "SG002"
    assert value(connection, "select count(*) from sluice.outcome where outcome = 'retry'") == 0
    unknown = refused(
        connection,
        "select sluice.fail_events(%s, %s, %s, %s)",
        *(LOG, GROUP, claim_id, '[{"ev_id": 99}]'),
    )
    assert unknown.sqlstate == "SG003"


def test_failure_behind_a_retried_event_of_its_key_is_released(connection):
    make_log(connection)
    create_group(connection, GROUP, key="ev_type", when_waiting="block")
    send(connection, "k", "k", "k")
    events = claim(connection, 10)
    first, second, third = (event.ev_id for event in events)

    decided = fail(
        connection,
        events[0].claim_id,
        {"ev_id": first, "delay": 60},
        {"ev_id": second, "delay": 90},
        {"ev_id": third, "reject": True},
    )

    assert decided == [
        (first, "retry", 1, 60.0),
        (second, "released", 1, None),
        (third, "dead", 1, None),
    ]
