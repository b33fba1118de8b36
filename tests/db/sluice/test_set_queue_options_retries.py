"""sluice.set_queue_options: the retry policy, with _complete_retry_policy and _retry_settings."""

import psycopg
import pytest

from support import rows
from support.queue_options import set_queue_options

DEFAULT = (5, "exponential", "00:00:01", "00:05:00", True, 2)


@pytest.fixture
def queue(connection):
    connection.execute("set intervalstyle = 'postgres'")
    connection.execute("select pgmq.create('Orders'), pgmq.create('mail')")
    return connection


def listed(connection, name="mail"):
    """Return the policy that applies, as `queue_options` and claims find it."""
    columns = "max_attempts, backoff, backoff_base::text, backoff_max::text, backoff_jitter, backoff_factor"
    (found,) = rows(connection, f"select {columns} from sluice.queue_options(%s)", name)
    assert rows(connection, f"select {columns} from sluice._retry_settings(%s)", name) == [found]
    return found


def test_a_queue_has_the_default_until_it_gets_one_of_its_own(queue):
    assert listed(queue, "Orders") == listed(queue, "mail") == DEFAULT

    set_queue_options(
        queue,
        "orders",
        max_attempts=3,
        backoff="linear",
        backoff_base="2 s",
        backoff_max="1 h",
        backoff_jitter=False,
        backoff_factor=1.5,
    )
    assert listed(queue, "orders") == (3, "linear", "00:00:02", "01:00:00", False, 1.5)

    # The others stay; null is the default.
    set_queue_options(queue, "ORDERS", max_attempts=None, backoff="constant")
    assert listed(queue, "orders") == (5, "constant", "00:00:02", "01:00:00", False, 1.5)
    assert listed(queue, "mail") == DEFAULT


def test_the_queue_goes_back_to_the_default(queue):
    set_queue_options(queue, "mail", max_attempts=3)

    assert set_queue_options(queue, "MAIL", max_attempts=None) == "changed"
    assert set_queue_options(queue, "mail", max_attempts=None) == "unchanged"

    assert listed(queue) == DEFAULT


def test_it_goes_with_its_queue(queue):
    set_queue_options(queue, "mail", max_attempts=3)
    queue.execute("select pgmq.drop_queue('mail')")
    queue.execute("select pgmq.create('mail')")

    assert listed(queue) == DEFAULT


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_attempts": 0}, "max_attempts 0"),
        ({"backoff": "fast"}, "a backoff 'fast'"),
        ({"backoff": "linear", "backoff_base": "-1 s"}, "a backoff_base of -00:00:01"),
        ({"backoff": "linear", "backoff_max": "101 years"}, "a backoff_max of 101 years"),
        ({"backoff_factor": 0.5}, "a backoff_factor of 0.5"),
        ({"backoff_factor": "NaN"}, "a backoff_factor of NaN"),
        ({"backoff_factor": "Infinity"}, "a backoff_factor of Infinity"),
    ],
)
def test_invalid_retry_policy_is_refused(queue, options, message):
    with pytest.raises(psycopg.Error) as caught:
        set_queue_options(queue, "mail", **options)

    assert caught.value.sqlstate == "22023"
    assert caught.value.diag.message_primary == f"a retry policy cannot have {message}"
    assert listed(queue) == DEFAULT
