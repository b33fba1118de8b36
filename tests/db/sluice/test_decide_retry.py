"""sluice.decide_retry, with sluice._decide, _is_last and _backoff."""

from __future__ import annotations

import itertools
import json

import pytest

from support import rows

POLICY = {
    "max_attempts": 5,
    "backoff": "exponential",
    "backoff_base": 1,
    "backoff_max": 300,
    "backoff_jitter": False,
    "backoff_factor": 2,
}


def decide(connection, attempt, failure=None, **policy):
    (decided,) = rows(
        connection,
        "select outcome, reason, delay from sluice.decide_retry(%s, %s, %s)",
        *(attempt, json.dumps(failure or {}), json.dumps(POLICY | policy)),
    )
    return decided


def delays(connection, attempts, **policy):
    return [
        decide(connection, attempt, max_attempts=1_000_000, **policy)[2] for attempt in attempts
    ]


def test_default_doubles_from_one_second_and_ends_after_five_attempts(connection):
    decided = [decide(connection, attempt) for attempt in range(1, 7)]

    assert decided == [
        *[("retry", None, float(delay)) for delay in (1, 2, 4, 8)],
        *[("dead", "too many attempts", None)] * 2,
    ]


def test_rejected_attempt_is_dead_with_its_reason(connection):
    assert decide(connection, 1, {"reject": True}) == ("dead", "rejected", None)
    assert decide(connection, 1, {"reject": True, "reason": "bad shape"}) == (
        "dead",
        "bad shape",
        None,
    )


def test_delay_of_the_failure_replaces_the_back_off_but_not_the_limit(connection):
    assert decide(connection, 1, {"delay": 0}, backoff_base=10) == ("retry", None, 0)
    assert decide(connection, 4, {"delay": 7.5}) == ("retry", None, 7.5)
    assert decide(connection, 5, {"delay": 7.5}) == ("dead", "too many attempts", None)


def test_least_delay_postpones_a_retry_and_no_more(connection):
    assert decide(connection, 1, {"delay_min": 30}) == ("retry", None, 30)
    assert decide(connection, 1, {"delay": 7, "delay_min": 30}) == ("retry", None, 30)
    assert decide(connection, 1, {"delay": 70, "delay_min": 30}) == ("retry", None, 70)
    assert decide(connection, 5, {"delay_min": 30}) == ("dead", "too many attempts", None)


@pytest.mark.parametrize(
    ("backoff", "wanted"),
    [
        ("constant", [2, 2, 2, 2, 2, 2]),
        ("linear", [2, 4, 6, 8, 10, 10]),
        ("exponential", [2, 3, 4.5, 6.75, 10, 10]),
    ],
)
def test_delays_grow_by_the_back_off_up_to_the_maximum(connection, backoff, wanted):
    policy = {"backoff": backoff, "backoff_base": 2, "backoff_factor": 1.5, "backoff_max": 10}

    assert delays(connection, range(1, 7), **policy) == wanted


def test_delay_never_shrinks_and_stays_within_its_bounds(connection):
    attempts = [1, 2, 3, 10, 100, 2_000]
    for backoff, base, factor, longest in itertools.product(
        ["constant", "linear", "exponential"],
        [0, 0.5, 100_000],
        [1, 1.1, 1e308],
        [0, 60, 1_000_000],
    ):
        policy = {
            "backoff": backoff,
            "backoff_base": base,
            "backoff_factor": factor,
            "backoff_max": longest,
        }
        found = delays(connection, attempts, **policy)

        assert found == sorted(found), policy
        assert found[0] == min(base, longest), policy
        assert 0 <= found[-1] <= longest, policy


def test_jitter_spreads_delays_between_half_and_all(connection):
    found = delays(connection, [1] * 100, backoff_base=10, backoff_jitter=True)

    assert 5 <= min(found) < 6
    assert 9 < max(found) <= 10
    assert len(set(found)) > 90


def test_last_attempt_or_delivery(connection):
    query = "select sluice._is_last(%s::integer, 3, %s::integer, 9)"
    cases = {(2, None): False, (2, 8): False, (3, None): True, (4, 1): True, (1, 9): True}

    assert {case: rows(connection, query, *case)[0][0] for case in cases} == cases


def test_invalid_policy_is_refused(connection):
    with pytest.raises(Exception, match="a retry policy has no option 'odd'"):
        decide(connection, 1, odd=1)
