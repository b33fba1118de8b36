"""Retry policies of handlers: their values as the server takes them."""

from __future__ import annotations

import pytest

from pgsluice.errors import ArgumentError
from pgsluice.worker import RetryPolicy


def test_options_are_those_of_a_policy_in_the_database():
    retry = RetryPolicy(
        max_attempts=3,
        backoff_base_s=2,
        backoff_factor=1.5,
        backoff_max_s=10,
        backoff="linear",
        backoff_jitter=True,
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
        ({"max_attempts": 0}, "max_attempts is 0; use a whole number, 1 to 2147483647"),
        ({"max_attempts": 2**40}, "max_attempts is 1099511627776; use a whole number, 1 to"),
        ({"max_attempts": 2.5}, "max_attempts is 2.5; use a whole number"),
        ({"max_attempts": "3"}, "max_attempts is '3'; use a whole number"),
        ({"backoff_base_s": None}, "backoff_base_s is None; use 0 to 2147483647 seconds"),
        ({"backoff_jitter": 0.5}, "backoff_jitter is 0.5; use True or False"),
        ({"backoff_factor": "2"}, "backoff_factor is '2'; use 1 or more"),
        ({"backoff_base_s": -1}, "backoff_base_s is -1; use 0 to 2147483647 seconds"),
        ({"backoff_max_s": -1}, "backoff_max_s is -1; use 0 to 2147483647 seconds"),
        ({"backoff_max_s": 1e12}, "backoff_max_s is 1000000000000.0; use 0 to 2147483647"),
        ({"backoff_max_s": float("inf")}, "backoff_max_s is inf"),
        ({"backoff_base_s": float("nan")}, "backoff_base_s is nan"),
        ({"backoff": "fibonacci"}, "backoff is 'fibonacci'; use constant, linear, exponential"),
        ({"backoff_factor": 0.5}, "backoff_factor is 0.5; use 1 or more"),
        ({"backoff_factor": float("nan")}, "backoff_factor is nan; use 1 or more"),
        ({"backoff_factor": float("inf")}, "backoff_factor is inf; use 1 or more"),
    ],
)
def test_a_policy_that_could_not_be_followed_is_refused(arguments, words):
    with pytest.raises(ArgumentError, match=words):
        RetryPolicy(**arguments)
