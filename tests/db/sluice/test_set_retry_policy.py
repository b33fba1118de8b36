"""sluice.set_retry_policy, with _complete_retry_policy and _retry_settings."""

import psycopg
import pytest

from support import rows

DEFAULT = (5, "exponential", "00:00:01", "00:05:00", True, 2)


@pytest.fixture
def queue(connection):
    connection.execute("set intervalstyle = 'postgres'")
    connection.execute("select pgmq.create('Orders'), pgmq.create('mail')")
    return connection


def listed(connection):
    return rows(
        connection,
        "select queue_name, max_attempts, backoff, backoff_base::text, backoff_max::text, backoff_jitter, backoff_factor, is_default "
        "from sluice.list_retry_policies()",
    )


def test_a_queue_has_the_default_until_it_gets_one_of_its_own(queue):
    assert listed(queue) == [("Orders", *DEFAULT, True), ("mail", *DEFAULT, True)]

    queue.execute("select sluice.set_retry_policy('orders', 3, 'linear', '2 s', '1 h', false, 1.5)")
    assert listed(queue)[0] == ("Orders", 3, "linear", "00:00:02", "01:00:00", False, 1.5, False)

    # A policy is replaced as a whole; omitted settings have their defaults.
    queue.execute("select sluice.set_retry_policy('orders', null, backoff => 'constant')")
    assert listed(queue)[0] == ("Orders", 5, "constant", "00:00:01", "00:05:00", True, 2, False)


def test_it_goes_with_its_queue(queue):
    queue.execute("select sluice.set_retry_policy('mail', 3)")
    queue.execute("select pgmq.drop_queue('mail')")
    queue.execute("select pgmq.create('mail')")

    assert listed(queue)[1] == ("mail", *DEFAULT, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("0", "max_attempts 0"),
        ("5, 'fast'", "a backoff 'fast'"),
        ("5, 'linear', '-1 s'", "a backoff_base of -00:00:01"),
        ("5, 'linear', '1 s', '101 years'", "a backoff_max of 101 years"),
        ("backoff_factor => 0.5", "a backoff_factor of 0.5"),
        ("backoff_factor => 'NaN'", "a backoff_factor of NaN"),
        ("backoff_factor => 'Infinity'", "a backoff_factor of Infinity"),
    ],
)
def test_invalid_retry_policy_is_refused(queue, arguments, message):
    with pytest.raises(psycopg.Error) as caught:
        queue.execute(f"select sluice.set_retry_policy('mail', {arguments})")

    assert caught.value.sqlstate == "22023"
    assert caught.value.diag.message_primary == f"a retry policy cannot have {message}"
    assert listed(queue)[1][-1] is True


def test_a_queue_that_does_not_exist_is_named(queue):
    with pytest.raises(psycopg.Error) as caught:
        queue.execute("select sluice.set_retry_policy('nope')")

    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "QU005",
        "queue 'nope' does not exist",
    )


def test_only_an_admin_sets_it_without_being_superuser(queue, as_member):
    query = "select sluice.set_retry_policy('mail')"

    as_member("sluice_admin", query)
    for member_of in ("sluice_reader", "sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)
