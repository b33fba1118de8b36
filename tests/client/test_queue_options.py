"""Options of queues, sync and async, on a pool and a connection."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pgsluice import QueueSettings
from pgsluice.errors import ArgumentError, PayloadError, QueueNotFoundError

OPTIONS = {
    "archive_retention": timedelta(days=30, microseconds=1),
    "max_attempts": 3,
    "backoff": "linear",
    "backoff_base": timedelta(seconds=2),
    "backoff_max": timedelta(hours=1),
    "backoff_jitter": False,
    "backoff_factor": 1.5,
    "deduplication_window": timedelta(minutes=5),
    "fleet_concurrency": 2,
    "rate": 3,
    "rate_interval": timedelta(seconds=90),
    "priority_weights": [16, 4, 1],
}


# By the client's `create`.
CREATED_WITH = timedelta(days=7)


def defaults(queue_name, *, archive_retention=None):
    return QueueSettings(
        queue_name=queue_name,
        paused_at=None,
        paused_by=None,
        pause_reason=None,
        archive_retention=archive_retention,
        max_attempts=5,
        backoff="exponential",
        backoff_base=timedelta(seconds=1),
        backoff_max=timedelta(minutes=5),
        backoff_jitter=True,
        backoff_factor=2.0,
        deduplication_window=None,
        deduplication_until=None,
        on_duplicate=None,
        deduplication_by=None,
        fleet_concurrency=None,
        key_concurrency=None,
        rate=None,
        rate_interval=None,
        when_waiting=None,
        priority_weights=None,
        limits_by=None,
    )


def test_options_are_set_shown_and_reset(clients, queue_name):
    queue = clients.queue
    assert queue.queue_options(queue_name) == defaults(queue_name, archive_retention=CREATED_WITH)

    assert queue.set_queue_options(queue_name, **OPTIONS) == "changed"
    assert queue.set_queue_options(queue_name, **OPTIONS) == "unchanged"

    shown = queue.queue_options(queue_name)
    assert {name: getattr(shown, name) for name in OPTIONS} == OPTIONS
    assert shown in queue.list_queue_options()

    assert queue.set_queue_options(queue_name, **dict.fromkeys(OPTIONS)) == "changed"
    assert queue.queue_options(queue_name) == defaults(queue_name)
    assert defaults(queue_name) in queue.list_queue_options()


def test_options_that_are_not_given_keep_their_values(clients, queue_name):
    clients.queue.set_queue_options(queue_name, max_attempts=3, fleet_concurrency=2)
    clients.queue.set_queue_options(queue_name, when_waiting="block")
    clients.queue.set_queue_options(queue_name, fleet_concurrency=None)

    shown = clients.queue.queue_options(queue_name)
    assert (shown.max_attempts, shown.fleet_concurrency, shown.when_waiting) == (3, None, "block")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"color": "red"}, "has no option 'color'"),
        ({"paused": "perhaps"}, 'cannot have paused "perhaps"'),
        ({"archive_retention": timedelta(seconds=-1)}, "archive_retention is negative"),
        ({"archive_retention": timedelta.max}, "out of range"),
        ({"max_attempts": 0}, "cannot have max_attempts 0"),
        ({"backoff": "fast"}, "cannot have a backoff 'fast'"),
        ({"backoff_base": timedelta(seconds=-1)}, "cannot have a backoff_base of -1 days"),
        ({"backoff_factor": 0.5}, "cannot have a backoff_factor of 0.5"),
        ({"deduplication_window": timedelta(0)}, "deduplication_window is not positive"),
        ({"deduplication_until": "read"}, "deduplication_until is 'read'"),
        ({"on_duplicate": "drop"}, "on_duplicate is 'drop'"),
        ({"fleet_concurrency": 0}, "fleet_concurrency is 0"),
        ({"key_concurrency": "two"}, 'cannot have key_concurrency "two"'),
        ({"rate": -1}, "rate is -1"),
        ({"rate": 1, "rate_interval": timedelta(0)}, "rate_interval is 00:00:00"),
        ({"when_waiting": "wait"}, "when_waiting is 'wait'"),
        ({"priority_weights": [1, 0.5]}, "cannot have priority_weights"),
        ({"when_waiting": "skip", "priority_weights": [2, 1]}, "priorities or limits of its keys"),
    ],
    ids=lambda of: " ".join(of) if isinstance(of, dict) else "",
)
def test_invalid_option_is_named_and_nothing_is_changed(clients, queue_name, options, message):
    with pytest.raises(ArgumentError, match=message):
        clients.queue.set_queue_options(queue_name, **({"max_attempts": 3} | options))

    created = defaults(queue_name, archive_retention=CREATED_WITH)
    assert clients.queue.queue_options(queue_name) == created


def test_option_that_is_no_json_is_refused_before_the_call(clients, queue_name):
    with pytest.raises(PayloadError, match="options"):
        clients.queue.set_queue_options(queue_name, archive_retention=object())


def test_a_queue_that_does_not_exist_is_named(clients):
    for call in (
        lambda: clients.queue.set_queue_options("nope", paused=True),
        lambda: clients.queue.set_queue_options("nope"),
        lambda: clients.queue.queue_options("nope"),
    ):
        with pytest.raises(QueueNotFoundError, match="'nope' does not exist"):
            call()
