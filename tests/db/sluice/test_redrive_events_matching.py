"""sluice.redrive_events_matching."""

import pytest

from support import rows, value
from support.log import error_of


def redriven(connection, arguments):
    query = f"select dead_event_id from sluice.redrive_events_matching({arguments})"
    return [row[0] for row in rows(connection, query)]


def test_steps_move_what_matches_in_order_until_nothing_is_left(dead):
    assert redriven(dead, "'events', 'g', qty => 4") == [1, 2, 3, 4]
    assert redriven(dead, "'events', 'g', qty => 4") == [5, 6]
    assert redriven(dead, "'events', 'g', qty => 4") == []
    claimed = rows(dead, "select ev_id, ev_data from sluice.claim('events', 'g', 10)")
    assert claimed == [(6 + n, str(n)) for n in range(1, 7)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("after_dead_event_id => 4", [5, 6]),
        ("ev_type => 'odd'", [1, 3, 5]),
        ("reason => 'worse'", [6]),
        ("ev_ids => '{2, 77}'", [2]),
        ("since => now() + interval '1 h'", []),
        ("until => now() + interval '1 h'", [1, 2, 3, 4, 5, 6]),
    ],
)
@pytest.mark.parametrize("target", ["null", "'again'"])
def test_a_filter_keeps_the_others_dead(dead, condition, wanted, target):
    assert redriven(dead, f"'events', 'g', {target}, {condition}") == wanted
    assert value(dead, "select count(*) from sluice.dead_event") == 6 - len(wanted)


def test_two_at_once_share_them(database, dead):
    with database.connect(autocommit=False) as first:
        assert redriven(first, "'events', 'g', qty => 2") == [1, 2]
        dead.execute("set lock_timeout = '10s'")

        assert redriven(dead, "'events', 'g', qty => 2") == [3, 4]
        first.rollback()

    assert redriven(dead, "'events', 'g'") == [1, 2, 5, 6]


def test_an_unknown_group_or_target_is_named_and_moves_nothing(dead):
    for arguments, wanted in (
        ("'events', 'missing'", ("SG001", "event log 'events' has no share group 'missing'")),
        ("'events', 'g', 'missing'", ("QU005", "queue 'missing' does not exist")),
    ):
        assert error_of(dead, f"select sluice.redrive_events_matching({arguments})") == wanted

    assert value(dead, "select count(*) from sluice.dead_event") == 6
