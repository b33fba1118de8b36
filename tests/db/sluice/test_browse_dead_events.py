"""sluice.browse_dead_events and count_dead_events, with _dead_event_filter_sql and _dead_letter."""

import psycopg
import pytest

from support import rows, value


def test_a_dead_event_is_kept_with_all_that_is_known(dead):
    ((event,),) = rows(
        dead, "select to_jsonb(e) from sluice.browse_dead_events('events', 'g', qty => 1) as e"
    )

    assert isinstance(event.pop("claim_id"), int)
    assert isinstance(event.pop("dead_at"), str)
    assert isinstance(event.pop("ev_time"), str)
    assert event.pop("ev_txid")
    assert event == {
        "dead_event_id": 1, "queue_name": "events", "group_name": "g", "ev_id": 1, "ev_type": "odd", "ev_data": "1",
        "ev_extra1": "x", "ev_extra2": None, "ev_extra3": None, "ev_extra4": "z",
        "redriven": 0, "attempts": 1, "deliveries": 1, "reason": "bad", "error": "trace",
        "ev_key": None, "ev_place": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("", [1, 2, 3, 4, 5, 6]),
        ("ev_type => 'odd'", [1, 3, 5]),
        ("reason => 'worse'", [6]),
        ("ev_ids => '{2, 6, 77}'", [2, 6]),
        ("ev_ids => '{}'", []),
        ("since => now() + interval '1 h'", []),
        ("until => now() + interval '1 h'", [1, 2, 3, 4, 5, 6]),
        ("since => now() - interval '1 h', until => now() - interval '1 min'", []),
        ("ev_type => 'even', reason => 'bad'", [2, 4]),
    ],
)
def test_dead_events_are_browsed_and_counted_by_a_filter(dead, condition, wanted):
    arguments = ", ".join(filter(None, ["'events', 'g'", condition]))

    found = rows(dead, f"select ev_id from sluice.browse_dead_events({arguments})")

    assert [ev_id for (ev_id,) in found] == wanted
    assert value(dead, f"select sluice.count_dead_events({arguments})") == len(wanted)


def test_pages_go_on_behind_an_id(dead):
    pages = "select dead_event_id from sluice.browse_dead_events('events', 'g', %s, 4)"

    assert [row[0] for row in rows(dead, pages, None)] == [1, 2, 3, 4]
    assert [row[0] for row in rows(dead, pages, 4)] == [5, 6]
    assert rows(dead, pages, 6) == []


def test_other_groups_have_their_own(dead):
    assert value(dead, "select sluice.count_dead_events('events', 'h')") == 0
    assert rows(dead, "select * from sluice.browse_dead_events('missing', 'g')") == []


def test_dead_events_of_a_dropped_group_and_log_are_kept(dead):
    dead.execute("select sluice.drop_group('events', 'g'), pgq.drop_queue('events', true)")

    assert value(dead, "select sluice.count_dead_events('events', 'g')") == 6


def test_a_page_of_many_costs_a_page(connection, buffers):
    connection.execute(
        "insert into sluice.dead_event (queue_name, group_name, claim_id, ev_id, ev_time, ev_txid, redriven, attempts, deliveries, reason) "
        "select 'q', 'g' || n % 10, 1, n, now(), '9', 0, 1, 1, 'r' from generate_series(1, 50000) as n"
    )
    connection.execute("analyze sluice.dead_event")

    assert buffers("select * from sluice.browse_dead_events('q', 'g7', 25000, 100)") < 150


def test_readers_look_and_writers_and_monitors_do_not(dead, as_member):
    for query in (
        "select * from sluice.browse_dead_events('events', 'g', qty => 1)",
        "select sluice.count_dead_events('events', 'g')",
    ):
        for member_of in ("pgq_admin", "pgq_reader", "sluice_admin", "sluice_reader"):
            assert len(as_member(member_of, query)) == 1
        for member_of in ("pgq_writer", "sluice_writer", "sluice_monitor"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                as_member(member_of, query)
