"""sluice.list_failing, with _error_pattern: failed messages by error."""

import json

import psycopg
import pytest

from support import rows, value
from support.servers import Database

QUERY = (
    "select queue_name, error_type, error, messages, attempts_max, example_msg_id, "
    "round(extract(epoch from next_retry_at - clock_timestamp())), worker from sluice.list_failing"
)


@pytest.fixture
def failed(connection):
    """The queues `Orders` with two messages of one error and one of another, and `again` with one."""
    connection.execute("select pgmq.create('Orders'), pgmq.create('again'), pgmq.create('idle')")
    for queue_name, errors in (
        ("Orders", ["row 17 is locked\nin 3 s", "row 4 is locked", 'relation "a" does not exist']),
        ("again", ["row 5 is locked"]),
    ):
        for number, error in enumerate(errors, 1):
            connection.execute("select pgmq.send(%s, '1')", [queue_name])
            connection.execute("select pgmq.read(%s, 30, 1)", [queue_name])
            failure = {
                "msg_id": number, "read_ct": 1, "delay": 60 * number, "error_type": "Error", "error": error,
            }  # fmt: skip
            connection.execute(
                "select sluice.fail(%s, %s, 'w')", [queue_name, json.dumps([failure])]
            )
    return connection


def test_failed_messages_are_grouped_by_error_most_frequent_first(failed):
    assert rows(failed, f"{QUERY}('ORDERS')") == [
        ("Orders", "Error", "row # is locked", 2, 1, 2, 60, "w"),
        ("Orders", "Error", 'relation "a" does not exist', 1, 1, 3, 180, "w"),
    ]
    assert [row[0] for row in rows(failed, f"{QUERY}()")] == ["Orders", "Orders", "again"]


def test_dead_and_archived_messages_are_not_listed(failed):
    failed.execute("select pgmq.archive('Orders', array[1, 3]::bigint[]), pgmq.delete('again', 1)")

    assert [row[2:4] for row in rows(failed, f"{QUERY}()")] == [("row # is locked", 1)]


def test_message_that_runs_again_has_no_next_retry(failed):
    failed.execute("select pgmq.set_vt('again', 1, 0)")
    failed.execute("select pgmq.read('again', 30, 1)")

    assert rows(failed, "select messages, next_retry_at from sluice.list_failing('again')") == [
        (1, None)
    ]


def test_locked_queue_is_left_out_of_the_list_of_all_and_is_an_error_alone(
    failed, database: Database
):
    with database.connect(autocommit=False) as holder:
        holder.execute("lock table pgmq.q_again in access exclusive mode")

        assert {row[0] for row in rows(failed, f"{QUERY}()")} == {"Orders"}
        with pytest.raises(psycopg.errors.LockNotAvailable):
            failed.execute("select sluice.list_failing('again')")


def test_missing_queue_is_named(connection):
    with pytest.raises(psycopg.Error, match="queue 'missing' does not exist") as caught:
        connection.execute("select sluice.list_failing('missing')")

    assert caught.value.sqlstate == "QU005"


@pytest.mark.parametrize(
    ("error", "pattern"),
    [
        ("a 12 b 3.5", "a # b #.#"),
        ("job 123e4567-e89b-12d3-a456-426614174000 at 0x7f3a", "job # at #"),
        ("KeyError: 'user-a' not in 'b'", "KeyError: # not in #"),
        ("can't read, isn't there", "can't read, isn't there"),
        ('invalid input syntax for type integer: "x1"', "invalid input syntax for type integer: #"),
        ('relation "a" does not exist', 'relation "a" does not exist'),
        ("first\nsecond", "first"),
        (None, None),
    ],
)
def test_pattern_of_an_error_has_no_numbers_and_values(connection, error, pattern):
    assert value(connection, "select sluice._error_pattern(%s)", error) == pattern


def test_readers_see_errors_and_monitors_do_not(failed, as_member):
    query = "select messages from sluice.list_failing('again')"

    assert as_member("sluice_reader", query) == [(1,)]
    for member_of in ("sluice_monitor", "sluice_writer"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)
