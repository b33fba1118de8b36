"""`pgsluice queue retry-policy` on a real server."""

from __future__ import annotations

import json
from functools import partial

import pytest


@pytest.fixture
def retry_policy(command):
    """Run a command on policies, with a queue `orders`."""
    command("queue", "create", "orders")
    return partial(command, "queue", "retry-policy")


def test_a_policy_is_set_listed_and_dropped(retry_policy):
    shown = ["--json", "orders"]
    default = {
        "queue_name": "orders", "max_attempts": 5, "backoff": "exponential", "backoff_base_s": 1.0,
        "backoff_max_s": 300.0, "backoff_jitter": True, "backoff_factor": 2.0, "is_default": True,
    }  # fmt: skip
    assert json.loads(retry_policy("list", *shown).stdout) == [default]

    options = [
        "--max-attempts",
        "3",
        "--backoff",
        "linear",
        "--backoff-base",
        "2s",
        "--backoff-max",
        "1h",
        "--backoff-factor",
        "1.5",
    ]
    retry_policy("set", "orders", *options, "--no-jitter")
    (policy,) = json.loads(retry_policy("list", *shown).stdout)
    assert list(policy.values()) == ["orders", 3, "linear", 2.0, 3600.0, False, 1.5, False]
    assert "0:00:02" in retry_policy("list").stdout

    retry_policy("drop", "orders")
    assert "has no retry policy" in retry_policy("drop", "orders", code=1).stderr
    assert json.loads(retry_policy("list", *shown).stdout) == [default]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["set", "orders", "--backoff-base", "soon"], 2, "is not a valid duration"),
        (["set", "orders", "--backoff-max", "forever"], 2, "is not a valid duration"),
        (["set", "orders", "--max-attempts", "0"], 2, "max-attempts"),
        (["set", "nope"], 3, "queue 'nope' does not exist"),
        (["list", "nope"], 3, "queue 'nope' does not exist"),
    ],
)
def test_invalid_retry_option_is_named(retry_policy, arguments, code, words):
    assert words in retry_policy(*arguments, code=code).stderr
