"""sluice.list_dead_letter_ids: ids of dead letters that a filter selects."""

from __future__ import annotations

import pytest

from support.dead_letters import FILTERS, filter_argument, make_many, named


@pytest.mark.parametrize("case", FILTERS, ids=str)
def test_ids_that_a_filter_selects_are_in_order(letters, case):
    found = letters.find("list_dead_letter_ids", filter_argument(case[0]))

    assert found == letters.wanted(case)


def test_pages_continue_after_an_id(letters):
    pages = ', \'{"error_type": ""}\', after_dead_letter_id => 1, qty => 2'

    assert letters.find("list_dead_letter_ids", pages) == [2, 4]
    assert letters.find("list_dead_letter_ids", ", '{}', 6") == []


@pytest.mark.slow
@pytest.mark.parametrize("is_group", [False, True], ids=["queue", "share group"])
def test_a_page_of_many_costs_a_page_without_statistics(connection, buffers, is_group):
    make_many(connection, 100_000, 10, is_group=is_group)

    ids = f"select sluice.list_dead_letter_ids({named('q7', is_group=is_group)}, '{{}}'"
    assert buffers(f"{ids}, 50000, 100)") < 200
    assert buffers(f"{ids}, qty => 100)") < 200
