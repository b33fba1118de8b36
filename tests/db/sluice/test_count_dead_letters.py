"""sluice.count_dead_letters: the number that a filter selects."""

import pytest

from support import value
from support.dead_letters import FILTERS, filter_argument


@pytest.mark.parametrize("case", FILTERS, ids=str)
def test_dead_letters_that_a_filter_selects_are_counted(letters, case):
    assert letters.find("count_dead_letters", filter_argument(case[0])) == [
        len(letters.wanted(case))
    ]


def test_dead_letters_of_other_queues_and_groups_do_not_count(letters):
    count = "select sluice.count_dead_letters({})"

    assert value(letters.connection, count.format(letters.other)) == 1
    assert value(letters.connection, count.format("'missing'")) == 0
