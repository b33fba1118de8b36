"""sluice.list_attempts: the attempts of messages with their last error, also while they wait for a retry."""

import json

import psycopg
import pytest

from support import rows

WHY = {"error_type": "ValueError", "error": "no", "trace": "at 1"}
QUERY = (
    "select msg_id, attempts, state, error_type, error, trace, worker, "
    "round(extract(epoch from next_retry_at - clock_timestamp())), first_failed_at <= last_failed_at "
    "from sluice.list_attempts('Orders', array[1, 2, 3, 4])"
)


@pytest.fixture
def failed(connection):
    """The queue `orders`: 1 waits for a retry, 2 is dead-lettered, 3 runs again after a failure, 4 never failed."""
    connection.execute("select pgmq.create('orders')")
    connection.execute("select pgmq.send_batch('orders', array['1', '2', '3', '4']::jsonb[])")
    connection.execute("select pgmq.read('orders', 30, 4)")
    failures = [
        {"msg_id": 1, "read_ct": 1, "delay": 60, **WHY},
        {"msg_id": 2, "read_ct": 1, "reject": True, **WHY},
        {"msg_id": 3, "read_ct": 1, "delay": 0, **WHY},
    ]
    connection.execute("select sluice.fail('orders', %s, 'w')", [json.dumps(failures)])
    connection.execute("select pgmq.read('orders', 30, 1)")
    connection.execute("select sluice.begin_attempts('orders', array[3], array[2], 'v')")
    return connection


def test_attempts_are_returned_with_their_last_error_and_next_retry(failed):
    assert rows(failed, QUERY) == [
        (1, 1, "failed", "ValueError", "no", "at 1", "w", 60, True),
        (2, 1, "dead", "ValueError", "no", "at 1", "w", None, True),
        (3, 2, "begun", "ValueError", "no", "at 1", "v", None, True),
    ]


def test_message_that_was_archived_has_none(failed):
    failed.execute("select pgmq.archive('orders', 1)")

    assert [row[0] for row in rows(failed, QUERY)] == [2, 3]


def test_missing_queue_is_an_error(connection):
    with pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("select sluice.list_attempts('missing', '{1}')")


def test_readers_see_errors_and_monitors_do_not(failed, as_member):
    query = "select msg_id from sluice.list_attempts('orders', '{1}')"

    assert as_member("sluice_reader", query) == [(1,)]
    for member_of in ("sluice_monitor", "sluice_writer"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)
