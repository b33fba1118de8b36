"""sluice.list_dead_letter_ids: ids of dead letters that a filter matches."""

from __future__ import annotations

import psycopg
import pytest

from support import rows

LETTERS = "select * from sluice.list_dead_letter_ids"


@pytest.fixture
def letters(connection):
    """Dead letters 1 to 6 of `orders`, each a day older than the last, and 7 of another queue."""
    connection.execute(
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, reason, dead_at, error, error_type) "
        "select case n when 7 then 'other' when 1 then 'Orders' else 'orders' end, n, 1, now(), "
        "case when n % 2 = 0 then 'even' else 'odd' end, date '2026-01-10' - n, "
        "case when n < 4 then format(e'no row %s\\nof table t', n) when n < 6 then 'other' end, "
        "case when n < 4 then 'KeyError' end "
        "from generate_series(1, 7) as n"
    )
    return connection


def ids(connection, query):
    return [row[0] for row in rows(connection, query)]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("", [1, 2, 3, 4, 5, 6]),
        (", 2, 3", [3, 4, 5]),
        (", reason => 'even'", [2, 4, 6]),
        (", error_type => 'KeyError'", [1, 2, 3]),
        (", since => '2026-01-06', until => '2026-01-08'", [3, 4]),
        (", error => 'other'", [4, 5]),
        (", error => 'no row #'", [1, 2, 3]),
        (", error => e'no row 2\\nof table t'", [2]),
        (", error => 'no row 2'", []),
        (", error => ''", [6]),
        (", reason => 'odd', error => 'no row #', until => '2026-01-08'", [3]),
    ],
)
def test_filter_is_applied_in_order_of_ids(letters, arguments, found):
    assert ids(letters, f"{LETTERS}('ORDERS'{arguments})") == found


def test_readers_list_ids_and_monitors_do_not(letters, as_member):
    assert as_member("sluice_reader", f"{LETTERS}('other')") == [(7,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_monitor", f"{LETTERS}('other')")
