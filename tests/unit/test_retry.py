"""Retry policies: attempts, delays, caps and jitter."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgsluice.errors import ArgumentError
from pgsluice.worker import RetryPolicy

POLICIES = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 1_000),
    first_delay_s=st.integers(0, 100_000) | st.floats(0, 1e5),
    factor=st.floats(1, 1e308),
    max_delay_s=st.integers(0, 1_000_000) | st.floats(0, 1e6),
    backoff=st.sampled_from(["constant", "linear", "exponential"]),
)


def test_the_default_doubles_from_one_second_and_gives_up_after_five():
    retry = RetryPolicy()

    assert [retry.delay_s(attempt) for attempt in range(1, 6)] == [1, 2, 4, 8, 16]
    assert [retry.next_delay_s(attempt) for attempt in range(1, 7)] == [1, 2, 4, 8, None, None]


@given(POLICIES, st.integers(1, 2_000))
def test_a_delay_is_never_below_zero_nor_above_the_cap(retry, attempt):
    assert 0 <= retry.delay_s(attempt) <= retry.max_delay_s


@given(POLICIES, st.integers(1, 2_000))
def test_a_later_attempt_never_waits_less(retry, attempt):
    assert retry.delay_s(attempt + 1) >= retry.delay_s(attempt)


@given(POLICIES)
def test_the_first_delay_is_the_one_asked_for_unless_it_is_capped(retry):
    assert retry.delay_s(1) == min(retry.first_delay_s, retry.max_delay_s)


@given(POLICIES, st.integers(1, 2_000))
def test_no_attempt_follows_the_last_one(retry, attempt):
    assert (retry.next_delay_s(attempt) is None) is (attempt >= retry.max_attempts)
    assert (retry.next_delay_s(attempt, 7.0) is None) is (attempt >= retry.max_attempts)


def test_the_delay_that_a_handler_asks_for_comes_before_that_of_the_policy():
    assert RetryPolicy(first_delay_s=10).next_delay_s(1, 0.0) == 0.0


@given(POLICIES, st.integers(1, 2_000))
def test_with_jitter_a_delay_is_between_half_of_it_and_all_of_it(retry, attempt):
    whole_s = retry.delay_s(attempt)

    assert whole_s / 2 <= replace(retry, jitter=True).delay_s(attempt) <= whole_s


def test_jitter_spreads_what_failed_together():
    delays_s = {RetryPolicy(first_delay_s=10, jitter=True).delay_s(1) for _ in range(100)}

    assert len(delays_s) > 90
    assert min(delays_s) < 6
    assert max(delays_s) > 9


@pytest.mark.parametrize(
    ("backoff", "delays_s"),
    [
        ("constant", [2, 2, 2, 2, 2, 2]),
        ("linear", [2, 4, 6, 8, 10, 10]),
        ("exponential", [2, 3, 4.5, 6.75, 10, 10]),
    ],
)
def test_delays_grow_as_the_backoff_says_up_to_the_cap(backoff, delays_s):
    retry = RetryPolicy(first_delay_s=2, factor=1.5, max_delay_s=10, backoff=backoff)

    assert [retry.delay_s(attempt) for attempt in range(1, 7)] == delays_s


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"max_attempts": 0}, "max_attempts is 0; use 1 to 2147483647"),
        ({"max_attempts": 2**40}, "max_attempts is 1099511627776; use 1 to 2147483647"),
        ({"first_delay_s": -1}, "first_delay_s is -1; use 0 to 2147483647 seconds"),
        ({"max_delay_s": -1}, "max_delay_s is -1; use 0 to 2147483647 seconds"),
        ({"max_delay_s": 1e12}, "max_delay_s is 1000000000000.0; use 0 to 2147483647"),
        ({"max_delay_s": float("inf")}, "max_delay_s is inf"),
        ({"first_delay_s": float("nan")}, "first_delay_s is nan"),
        ({"backoff": "fibonacci"}, "backoff is 'fibonacci'; use constant, linear, exponential"),
        ({"factor": 0.5}, "factor is 0.5; use 1 or more"),
        ({"factor": float("nan")}, "factor is nan; use 1 or more"),
        ({"factor": float("inf")}, "factor is inf; use 1 or more"),
    ],
)
def test_a_policy_that_could_not_be_followed_is_refused(arguments, words):
    with pytest.raises(ArgumentError, match=words):
        RetryPolicy(**arguments)
