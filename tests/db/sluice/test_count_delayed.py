"""sluice.count_delayed."""

import pytest

from support import value
from support.log import delay_event, error_of, move_retries, wait_until_due


@pytest.fixture
def changes(connection):
    connection.execute("select pgq.create_queue('changes'), pgq.create_queue('other')")
    return connection


def count(connection, log="changes"):
    return value(connection, "select sluice.count_delayed(%s)", log)


def test_only_what_waits_in_this_log_counts(changes):
    for _ in range(3):
        delay_event(changes, delay="1 hour")
    delay_event(changes)
    assert count(changes) == 4
    wait_until_due(changes)
    move_retries(changes)

    assert (count(changes), count(changes, "other")) == (3, 0)


def test_each_counts_once_while_the_table_is_copied(changes):
    for _ in range(5):
        delay_event(changes, delay="1 hour")
    assert value(changes, "select pgq._maintain_retry(0, 2)") is True

    assert count(changes) == 5


def test_retries_of_a_consumer_are_not_counted(changes):
    changes.execute("select pgq.register_consumer('changes', 'lake')")
    changes.execute(
        "select pgq.event_retry_raw('changes', 'lake', now() + interval '1 h', 1, now(), 0, 't', 'd', null, null, null, null)"
    )

    assert count(changes) == 0


def test_a_log_that_is_not_there_is_an_error(changes):
    assert error_of(changes, "select sluice.count_delayed('missing')")[0] == "PQ001"


def test_a_monitor_may_count(changes, as_member):
    assert as_member("sluice_monitor", "select sluice.count_delayed('changes')") == [(0,)]
