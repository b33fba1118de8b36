"""sluice.browse_dead_letters, with _dead_letter_filter_sql."""

import pytest

from support import rows


@pytest.fixture
def letters(connection):
    """Dead letters 1 to 6 of `orders`, in two spellings, and one of another queue."""
    connection.execute(
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, message, headers, reason, error_type, dead_at) "
        "select case when n % 2 = 1 then 'orders' else 'Orders' end, n * 10, 3, now(), jsonb_build_object('n', n), "
        "'{\"h\": 1}', case when n > 4 then 's' else 'r' end, case n % 3 when 0 then 'E' end, '2026-01-01 00:00+00'::timestamptz + make_interval(days => n - 1) "
        "from generate_series(1, 6) as n"
    )
    connection.execute(
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, reason) values ('other', 1, 1, now(), 'r')"
    )
    return connection


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("'orders'", [1, 2, 3, 4, 5, 6]),
        ("'ORDERS', qty => 2", [1, 2]),
        ("'orders', 2, 2", [3, 4]),
        ("'orders', 6", []),
        ("'orders', conditional => '{\"n\": 4}'", [4]),
        ("'orders', conditional_headers => '{\"h\": 2}'", []),
        ("'orders', since => '2026-01-02 00:00+00', until => '2026-01-04 00:00+00'", [2, 3]),
        ("'orders', reason => 's'", [5, 6]),
        ("'orders', error_type => 'E'", [3, 6]),
        ("'orders', error_type => ''", [1, 2, 4, 5]),
        ("'orders', reason => 's', error_type => 'E'", [6]),
        ("'missing'", []),
    ],
)
def test_dead_letters_are_browsed_by_their_id(letters, arguments, wanted):
    query = f"select dead_letter_id from sluice.browse_dead_letters({arguments})"

    assert [row[0] for row in rows(letters, query)] == wanted


def test_count_and_redrive_select_the_browsed_letters(letters):
    letters.execute("select pgmq.create('orders')")
    for which in ("reason => 's', error_type => 'E'", "error_type => 'E'"):
        browsed = rows(
            letters, f"select dead_letter_id from sluice.browse_dead_letters('orders', {which})"
        )
        assert rows(letters, f"select sluice.count_dead_letters('orders', {which})") == [(1,)]
        moved = f"select dead_letter_id from sluice.redrive_matching('orders', {which})"
        assert rows(letters, moved) == browsed


@pytest.mark.slow
def test_a_page_of_many_dead_letters_costs_a_page(connection, buffers):
    connection.execute(
        "insert into sluice.dead_letter (queue_name, msg_id, read_ct, enqueued_at, reason) "
        "select 'q' || n % 10, n, 1, now(), 'r' from generate_series(1, 100000) as n"
    )
    connection.execute("analyze sluice.dead_letter")

    assert buffers("select * from sluice.browse_dead_letters('q7', 50000, 100)") < 150
