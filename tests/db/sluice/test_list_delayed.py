"""sluice.list_delayed."""

import psycopg
import pytest

from support import rows, value
from support.log import delay_event, error_of, move_retries, wait_until_due


@pytest.fixture
def delayed(connection):
    """The log `changes` with five delayed events, two due at the same time; `other` with one."""
    connection.execute("select pgq.create_queue('changes'), pgq.create_queue('other')")
    for log, data, hour in (
        ("changes", "b", 2), ("changes", "a", 1), ("other", "o", 2), ("changes", "d", 3), ("changes", "c", 2), ("changes", "e", 4),
    ):  # fmt: skip
        connection.execute(
            "select sluice.insert_event(%s, 't', %s, at => date_trunc('day', now()) + interval '2 days' + make_interval(hours => %s), ev_extra2 => 'x')",
            (log, data, hour),
        )
    return connection


def page(connection, *, qty=100, after=(None, None)):
    return rows(connection, "select * from sluice.list_delayed('changes', %s, %s, %s)", qty, *after)


def test_delayed_events_are_listed_in_order_of_delivery(delayed):
    events = page(delayed)

    assert [event[4] for event in events] == ["a", "b", "c", "d", "e"]
    assert events[0][3:] == ("t", "a", None, "x", None, None)
    assert all(event[1] > event[2] for event in events), "due_at is after ev_time"


def test_pages_list_each_event_once_also_with_equal_times(delayed):
    seen, after = [], (None, None)
    while events := page(delayed, qty=2, after=after):
        seen += [event[4] for event in events]
        after = (events[-1][1], events[-1][0])

    assert seen == ["a", "b", "c", "d", "e"]
    second = page(delayed)[1]
    assert [event[4] for event in page(delayed, after=(second[1], None))] == ["d", "e"], (
        "a time without an id continues after all events of that time"
    )


def test_delivered_events_are_no_longer_listed(delayed):
    delay_event(delayed, "soon")
    assert page(delayed, qty=1)[0][4] == "soon"
    wait_until_due(delayed)
    move_retries(delayed)

    assert page(delayed, qty=1)[0][4] == "a"


def test_each_is_listed_once_while_the_table_is_copied(delayed):
    assert value(delayed, "select pgq._maintain_retry(0, 3)") is True

    assert value(delayed, "select count(*) from pgq.retry_entry") == 9, "three have a copy"
    assert [event[4] for event in page(delayed)] == ["a", "b", "c", "d", "e"]


def test_a_log_that_is_not_there_is_an_error(connection):
    assert error_of(connection, "select sluice.list_delayed('missing')") == (
        "PQ001",
        "event log 'missing' does not exist",
    )


def test_a_page_of_many_costs_a_page(connection, buffers):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(
        "select count(sluice.insert_event('changes', 't', 'd', delay => make_interval(hours => n))) from generate_series(1, 5000) as n"
    )

    assert buffers("select * from sluice.list_delayed('changes', 100)") < 150


def test_readers_see_it_and_writers_and_monitors_do_not(delayed, as_member):
    query = "select delayed_id from sluice.list_delayed('changes')"

    for member_of in ("pgq_admin", "pgq_reader", "sluice_admin", "sluice_reader"):
        assert len(as_member(member_of, query)) == 5
    for member_of in ("pgq_writer", "sluice_writer", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)
