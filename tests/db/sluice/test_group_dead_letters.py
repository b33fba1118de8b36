"""sluice.group_dead_letters: dead letters by reason, error type and error."""

import psycopg
import pytest

from support import rows


@pytest.fixture
def letters(connection):
    """Dead letters 1 to 5 of `orders`: three of one error, one of another, one without."""
    for number, (reason, error_type, error) in enumerate(
        (
            ("too many attempts", "KeyError", "'user-1'\ntrace"),
            ("too many attempts", "KeyError", "'user-2'"),
            ("rejected", None, None),
            ("too many attempts", "TimeoutError", "no answer in 30 s"),
            ("too many attempts", "KeyError", "'user-3'"),
        ),
        1,
    ):
        connection.execute(
            "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, reason, error_type, error, dead_at) "
            "values ('Orders', %s, 1, now(), %s, %s, %s, '2026-01-01 00:00+00'::timestamptz + make_interval(days => %s))",
            (number, reason, error_type, error, number),
        )
    return connection


QUERY = (
    "select reason, error_type, error, letters, extract(day from first_dead_at at time zone 'UTC'), "
    "extract(day from last_dead_at at time zone 'UTC'), example_dead_letter_id, example_error "
    "from sluice.group_dead_letters"
)


def test_dead_letters_are_grouped_by_error_most_frequent_first(letters):
    assert rows(letters, f"{QUERY}('orders')") == [
        ("too many attempts", "KeyError", "#", 3, 2, 6, 5, "'user-3'"),
        ("too many attempts", "TimeoutError", "no answer in # s", 1, 5, 5, 4, "no answer in 30 s"),
        ("rejected", "", "", 1, 4, 4, 3, None),
    ]


def test_only_the_newest_are_grouped(letters):
    assert [row[3:7:3] for row in rows(letters, f"{QUERY}('orders', 2)")] == [(1, 5), (1, 4)]


def test_search_finds_the_members_of_a_group(letters):
    for reason, error_type, error, count in rows(
        letters,
        "select reason, error_type, error, letters from sluice.group_dead_letters('orders')",
    ):
        found = rows(
            letters,
            "select letter from sluice.search_dead_letters('orders', reason => %s, error_type => %s, error => %s)",
            reason,
            error_type,
            error,
        )
        assert len(found) == count


def test_queue_without_dead_letters_has_no_groups(connection):
    assert rows(connection, f"{QUERY}('missing')") == []


def test_readers_see_groups_and_monitors_do_not(letters, as_member):
    query = "select letters from sluice.group_dead_letters('orders')"

    assert len(as_member("sluice_reader", query)) == 3
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_monitor", query)
