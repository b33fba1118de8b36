import psycopg
import pytest

from support import rows, value

STORE = "select sluice.store_results('orders', %s, %s, %s)"
HOURS = "select msg_id, detail, round(extract(epoch from expires_at - now()) / 3600) from sluice.result order by 1"


def test_each_result_is_kept_for_the_given_time(connection, claimed):
    connection.execute(STORE, [[7, 5], "[null, [1]]", "2 hours"])

    assert rows(connection, HOURS) == [(5, [1], 2), (7, None, 2)]


def test_a_later_message_of_the_same_id_replaces_the_result(connection, claimed):
    connection.execute(STORE, [[1], "[1]", "1 hour"])
    connection.execute(STORE, [[1], "[2]", "3 hours"])

    assert rows(connection, HOURS) == [(1, 2, 3)]


def test_expired_results_are_removed_with_the_expired_keys(connection, claimed):
    connection.execute(STORE, [[1, 2], "[1, 2]", "1 hour"])
    connection.execute("update sluice.result set expires_at = now() where msg_id = 1")

    assert (
        value(connection, "select detail from sluice._maintain_keys()") == "1 expired keys removed"
    )
    assert rows(connection, HOURS) == [(2, 2, 1)]


@pytest.mark.parametrize(
    ("results", "keep", "problem"),
    [
        ("[1, 2]", "1 hour", "got 2 results for 1 messages"),
        ("[1]", "0", "keep is not positive: 00:00:00"),
        ("[1]", None, "keep is not positive: NULL"),
    ],
)
def test_wrong_arguments_are_refused(connection, claimed, results, keep, problem):
    with pytest.raises(psycopg.Error, match=problem):
        connection.execute(STORE, [[1], results, keep])
