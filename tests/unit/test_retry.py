"""When to try again, and when to give up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgsluice.errors import ArgumentError
from pgsluice.worker import Retry

POLICIES = st.builds(
    Retry,
    max_attempts=st.integers(1, 1_000),
    first_delay_s=st.integers(0, 100_000),
    factor=st.floats(1, 1e308),
    max_delay_s=st.integers(0, 1_000_000),
)


def test_the_default_doubles_from_one_second_and_gives_up_after_five():
    retry = Retry()

    assert [retry.delay_s(attempt) for attempt in range(1, 6)] == [1, 2, 4, 8, 16]
    assert [retry.is_last(attempt) for attempt in range(1, 7)] == [False] * 4 + [True] * 2


@given(POLICIES, st.integers(1, 2_000))
def test_a_delay_is_whole_and_never_below_zero_nor_above_the_cap(retry, attempt):
    delay_s = retry.delay_s(attempt)

    assert isinstance(delay_s, int)
    assert 0 <= delay_s <= retry.max_delay_s


@given(POLICIES, st.integers(1, 2_000))
def test_a_later_attempt_never_waits_less(retry, attempt):
    assert retry.delay_s(attempt + 1) >= retry.delay_s(attempt)


@given(POLICIES)
def test_the_first_delay_is_the_one_asked_for_unless_it_is_capped(retry):
    assert retry.delay_s(1) == min(retry.first_delay_s, retry.max_delay_s)


@given(POLICIES, st.integers(1, 2_000))
def test_exactly_the_attempts_from_the_last_one_on_are_the_last(retry, attempt):
    assert retry.is_last(attempt) is (attempt >= retry.max_attempts)


def test_a_fractional_factor_is_rounded_down_only_at_the_end():
    retry = Retry(first_delay_s=1, factor=1.5, max_delay_s=10)

    # 1, 1.5, 2.25, 3.375, 5.06, 7.59, 11.39
    assert [retry.delay_s(attempt) for attempt in range(1, 8)] == [1, 1, 2, 3, 5, 7, 10]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"max_attempts": 0}, "max_attempts is 0; use 1 or more"),
        ({"first_delay_s": -1}, "a delay between attempts is negative"),
        ({"max_delay_s": -1}, "a delay between attempts is negative"),
        ({"factor": 0.5}, "factor is 0.5; use 1 or more"),
        ({"factor": float("nan")}, "factor is nan; use 1 or more"),
        ({"factor": float("inf")}, "factor is inf; use 1 or more"),
    ],
)
def test_a_policy_that_could_not_be_followed_is_refused(arguments, words):
    with pytest.raises(ArgumentError, match=words):
        Retry(**arguments)
