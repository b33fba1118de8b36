"""sluice.search_dead_letters: filters and continuation of a bounded search, newest first."""

import psycopg
import pytest

from support import rows


@pytest.fixture
def letters(connection):
    """Dead letters 1 to 6 of `orders`, in two spellings, and one of another queue."""
    connection.execute(
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, message, reason, error_type, error, dead_at) "
        "select case when n % 2 = 1 then 'orders' else 'Orders' end, n * 10, 3, now(), jsonb_build_object('n', n), "
        "case when n > 4 then 's' else 'r' end, case n % 3 when 0 then 'E' end, case when n <> 5 then 'row ' || n || ' is locked' end, "
        "'2026-01-01 00:00+00'::timestamptz + make_interval(days => n - 1) "
        "from generate_series(1, 6) as n"
    )
    connection.execute(
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, reason) values ('other', 1, 1, now(), 'r')"
    )
    return connection


def search(connection, arguments):
    """Return the ids found, and where the search ended."""
    found = rows(
        connection,
        "select (letter).dead_letter_id, searched_dead_letter_id "
        f"from sluice.search_dead_letters({arguments})",
    )
    end = [row[1] for row in found if row[0] is None]
    return [row[0] for row in found if row[0] is not None], end[0] if end else None


@pytest.mark.parametrize(
    ("arguments", "wanted", "end"),
    [
        ("'ORDERS'", [6, 5, 4, 3, 2, 1], None),
        ("'orders', qty => 2", [6, 5], 5),
        ("'orders', 5, 2", [4, 3], 3),
        ("'orders', 3, 2", [2, 1], None),
        ("'orders', scan => 4, reason => 'r'", [4, 3], 3),
        ("'orders', since => '2026-01-02 00:00+00', until => '2026-01-04 00:00+00'", [3, 2], None),
        ("'orders', reason => 's'", [6, 5], None),
        ("'orders', error_type => 'E'", [6, 3], None),
        ("'orders', error_type => '', reason => 's'", [5], None),
        ("'orders', error => 'row # is locked'", [6, 4, 3, 2, 1], None),
        ("'orders', error => ''", [5], None),
        ("'missing'", [], None),
    ],
)
def test_dead_letters_are_searched_newest_first(letters, arguments, wanted, end):
    assert search(letters, arguments) == (wanted, end)


def test_contents_are_left_out(letters):
    query = "select (letter).dead_letter_id, (letter).message, (letter).error from sluice.search_dead_letters('orders', qty => 1"

    assert rows(letters, f"{query})")[0] == (6, {"n": 6}, "row 6 is locked")
    assert rows(letters, f"{query}, with_contents => false)")[0] == (6, None, "row 6 is locked")


def test_readers_search_and_monitors_do_not(letters, as_member):
    query = "select searched_dead_letter_id from sluice.search_dead_letters('orders')"

    assert len(as_member("sluice_reader", query)) == 6
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        as_member("sluice_monitor", query)


@pytest.mark.slow
def test_search_among_many_dead_letters_costs_what_it_looks_at(connection, buffers):
    connection.execute(
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, reason) "
        "select 'q' || n % 2, n, 1, now(), 'r' from generate_series(1, 200000) as n"
    )

    assert buffers("select * from sluice.search_dead_letters('q1', qty => 50)") < 300
    assert (
        buffers("select * from sluice.search_dead_letters('q1', reason => 's', scan => 500)") < 300
    )
