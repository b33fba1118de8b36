"""sluice.purge_dead_events."""

import psycopg
import pytest

from support import rows, value
from support.log import error_of


def left(connection):
    return [
        row[0] for row in rows(connection, "select dead_event_id from sluice.dead_event order by 1")
    ]


@pytest.fixture
def aged(dead):
    """Dead events 1 to 6, each a day older than the previous one."""
    dead.execute(
        "update sluice.dead_event set dead_at = now() - make_interval(days => dead_event_id::integer)"
    )
    return dead


def test_the_oldest_go_first_in_steps(aged):
    purge = "select sluice.purge_dead_events('events', 'g', interval '2.5 days', qty => 3)"

    assert value(aged, purge) == 3
    assert left(aged) == [1, 2, 3]
    assert value(aged, purge) == 1
    assert left(aged) == [1, 2]
    assert value(aged, purge) == 0


def test_purge_without_age_removes_all(aged):
    assert value(aged, "select sluice.purge_dead_events('events', 'g', older_than => '0')") == 6


def test_purge_by_ids_removes_only_those_of_the_group(dead):
    assert (
        value(dead, "select sluice.purge_dead_events('events', 'h', dead_event_ids => '{1}')") == 0
    )
    assert (
        value(
            dead, "select sluice.purge_dead_events('events', 'g', dead_event_ids => '{1, 3, 77}')"
        )
        == 2
    )
    assert left(dead) == [2, 4, 5, 6]


def test_letters_locked_by_a_redrive_are_skipped(database, dead):
    with database.connect(autocommit=False) as session:
        session.execute("select sluice.redrive_events('events', 'g', '{1, 2}')")
        dead.execute("set lock_timeout = '10s'")

        assert value(dead, "select sluice.purge_dead_events('events', 'g', interval '0')") == 4
        session.rollback()

    assert left(dead) == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [("", "22004"), (", interval '0', '{1}'", "22023")],
)
def test_neither_or_both_is_an_error(dead, arguments, code):
    wanted = (code, "it is not clear which dead events to delete")
    assert error_of(dead, f"select sluice.purge_dead_events('events', 'g'{arguments})") == wanted
    assert len(left(dead)) == 6


def test_a_step_costs_what_it_deletes(connection, buffers):
    connection.execute(
        "insert into sluice.dead_event (queue_name, group_name, claim_id, ev_id, ev_time, ev_txid, redriven, attempts, deliveries, reason) "
        "select 'q', 'g', 1, n, now(), '9', 0, 1, 1, 'r' from generate_series(1, 50000) as n"
    )
    connection.execute("analyze sluice.dead_event")

    assert buffers("select sluice.purge_dead_events('q', 'g', interval '0', qty => 10)") < 200
    assert buffers("select sluice.purge_dead_events('q', 'g', interval '1 day')") < 50


def test_only_an_admin_purges_without_being_superuser(dead, as_member):
    query = "select sluice.purge_dead_events('events', 'g', interval '0')"

    for member_of in ("pgq_admin", "sluice_admin"):
        assert as_member(member_of, query) == [(6,)]
    for member_of in ("pgq_reader", "sluice_reader", "sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)
