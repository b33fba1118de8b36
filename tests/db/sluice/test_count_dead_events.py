"""sluice.count_dead_events; the filters are in test_browse_dead_events.py."""

from support import value


def test_all_of_a_group_count_without_a_filter(dead):
    assert value(dead, "select sluice.count_dead_events('events', 'g')") == 6
