"""Retry policies of handlers: their values as the server takes them."""

from __future__ import annotations

import pytest

from pgsluice.errors import ArgumentError
from pgsluice.worker import RetryPolicy


def test_options_are_those_of_a_policy_in_the_database():
    retry = RetryPolicy(
        max_attempts=3, first_delay_s=2, factor=1.5, max_delay_s=10, backoff="linear", jitter=True
    )

    assert retry.options == {
        "max_attempts": 3,
        "backoff": "linear",
        "backoff_base": 2,
        "backoff_max": 10,
        "backoff_jitter": True,
        "backoff_factor": 1.5,
    }


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
