"""sluice.list_dead_letters with scan: filters and continuation of a bounded search, newest first."""

import pytest

from support import rows
from support.dead_letters import FILTERS, filter_argument, make_many, named


def search(letters, arguments, scan=10_000):
    """Return the ids found, and where the search ended."""
    found = rows(
        letters.connection,
        "select (letter).dead_letter_id, searched_dead_letter_id "
        f"from sluice.list_dead_letters({letters.of}{arguments}, newest_first => true, scan => {scan})",
    )
    end = [row[1] for row in found if row[0] is None]
    return [row[0] for row in found if row[0] is not None], end[0] if end else None


@pytest.mark.parametrize("case", FILTERS, ids=str)
def test_dead_letters_are_searched_newest_first(letters, case):
    assert search(letters, filter_argument(case[0])) == (letters.wanted(case)[::-1], None)


@pytest.mark.parametrize(
    ("arguments", "scan", "wanted", "end"),
    [
        (", qty => 2", 99, [6, 5], 5),
        (", '{}', 5, 2", 99, [4, 3], 3),
        (", '{}', 3, 2", 99, [2, 1], None),
        (', \'{"reason": "r"}\'', 4, [4, 3], 3),
    ],
)
def test_the_last_row_says_where_a_search_ended(letters, arguments, scan, wanted, end):
    assert search(letters, arguments, scan) == (wanted, end)


def test_contents_are_left_out(letters):
    letters.connection.execute("update sluice.dead_letter set trace = 'at line 1'")
    columns = "(letter).dead_letter_id, (letter).message, (letter).headers, (letter).ev_data, (letter).trace"
    query = f"select {columns} from sluice.list_dead_letters({letters.of}, qty => 1, newest_first => true"
    contents = (None, None, "6") if letters.is_group else ({"n": 6}, {"h": 1}, None)

    assert rows(letters.connection, f"{query})")[0] == (6, *contents, "at line 1")
    without = rows(letters.connection, f"{query}, with_contents => false)")
    assert without[0] == (6, None, None, None, None)


@pytest.mark.slow
@pytest.mark.parametrize("is_group", [False, True], ids=["queue", "share group"])
def test_search_among_many_dead_letters_costs_what_it_looks_at(connection, buffers, is_group):
    make_many(connection, 200_000, 2, is_group=is_group)

    query = f"select * from sluice.list_dead_letters({named('q1', is_group=is_group)}"
    assert buffers(f"{query}, qty => 50, newest_first => true)") < 300
    assert buffers(f'{query}, \'{{"reason": "s"}}\', newest_first => true, scan => 500)') < 300
