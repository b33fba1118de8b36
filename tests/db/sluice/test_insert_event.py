"""sluice.insert_event; pgq/test_maint_retry_events.py covers due events."""

import psycopg
import pytest

from support import replace_in, rows, value
from support.log import (
    consume_all,
    contents,
    delay_event,
    error_of,
    move_retries,
    tick,
    wait_until_due,
)


@pytest.fixture
def changes(connection):
    connection.execute("select pgq.create_queue('changes')")
    connection.execute(
        "update pgq.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'"
    )
    return connection


@pytest.mark.parametrize(
    "when", ["delay => interval '100 ms'", "at => clock_timestamp() + interval '100 ms'"]
)
def test_an_event_that_waits_is_in_the_log_when_it_is_due_with_all_of_its_fields(changes, when):
    changes.execute("select pgq.register_consumer('changes', 'lake')")
    changes.execute("select pgq.register_consumer('changes', 'other')")

    assert (
        value(
            changes,
            f"select sluice.insert_event('changes', 't', 'd', {when}, ev_extra1 => 'a', ev_extra2 => 'b', ev_extra4 => 'e')",
        )
        is None
    )
    assert contents(changes) == []
    wait_until_due(changes)
    assert move_retries(changes) == 1

    tick(changes)
    assert consume_all(changes) == [[1]]
    assert consume_all(changes, consumer="other") == [[1]], "every consumer gets it"
    assert rows(
        changes,
        "select ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4, ev_owner, ev_retry from pgq.event_template",
    ) == [("t", "d", "a", "b", None, "e", None, None)]


def test_its_time_is_when_it_was_inserted(changes):
    with changes.transaction():
        changes.execute("select sluice.insert_event('changes', 't', 'd', delay => '100 ms')")
        inserted = value(changes, "select now()")
    wait_until_due(changes)
    move_retries(changes)

    assert value(changes, "select ev_time from pgq.event_template") == inserted


@pytest.mark.parametrize(
    "when",
    [
        "delay => interval '0'",
        "delay => interval '-1 hour'",
        "at => clock_timestamp()",
        "at => '2020-01-01'",
    ],
)
def test_event_already_due_is_inserted_immediately(changes, when):
    assert value(changes, f"select sluice.insert_event('changes', 't', 'd', {when})") == 1

    assert contents(changes) == [(1, "d")]
    assert value(changes, "select count(*) from pgq.retry_entry") == 0


def test_ids_are_in_the_order_of_due_times_however_they_were_inserted(changes):
    with changes.transaction():
        for data, delay in (("third", "309 ms"), ("first", "303 ms"), ("second", "306 ms")):
            changes.execute(
                "select sluice.insert_event('changes', 't', %s, at => now() + %s::interval)",
                (data, delay),
            )
    assert value(changes, "select pgq.insert_event('changes', 't', 'before')") == 1
    wait_until_due(changes)
    move_retries(changes)

    assert value(changes, "select pgq.insert_event('changes', 't', 'after')") == 5
    assert [data for _, data in contents(changes)] == [
        "before", "first", "second", "third", "after",
    ]  # fmt: skip


CLAIM = "select ev_data from sluice.claim('changes', 'g', %s)"


def test_share_group_gets_due_events_without_maintenance(changes):
    changes.execute("select sluice.create_group('changes', 'g')")
    delay_event(changes, "delayed")
    wait_until_due(changes)
    changes.execute("select pgq.insert_event('changes', 't', 'new')")

    assert rows(changes, CLAIM, 1) == [("new",)], "the claim has its quantity"
    assert contents(changes) == [(1, "new")]
    assert rows(changes, CLAIM, 1) == [], "the claim finds too few events and admits the due one"
    assert rows(changes, CLAIM, 1) == [("delayed",)]


def test_a_claim_that_does_not_look_never_gets_it(changes):
    """Counterproof: without _admit_due in sluice.claim, only maintenance moves due events."""
    replace_in(
        changes,
        "sluice.claim(text, text, integer, interval, boolean, text[], boolean)",
        "perform pgq._admit_due();",
        "null;",
    )
    changes.execute("select sluice.create_group('changes', 'g')")
    delay_event(changes, "delayed")
    wait_until_due(changes)

    assert [rows(changes, CLAIM, 1) for _ in range(3)] == [[], [], []]


def test_a_rolled_back_one_never_comes(database, changes):
    with database.connect(autocommit=False) as session:
        delay_event(session)
        session.rollback()

    wait_until_due(changes)
    assert move_retries(changes) == 0


def test_it_is_no_event_that_a_consumer_wants_again(changes):
    delay_event(changes, delay="1 hour")

    assert rows(changes, "select * from pgq.retry_queue") == []


def test_a_closed_log_refuses_it_and_one_that_was_closed_since_takes_what_waits(changes):
    delay_event(changes)
    changes.execute("update pgq.queue set queue_disable_insert = true")

    assert error_of(
        changes, "select sluice.insert_event('changes', 't', 'd', delay => interval '1 h')"
    ) == ("PQ004", "Insert into queue disallowed")
    wait_until_due(changes)
    assert move_retries(changes) == 1


def test_it_counts_in_the_limit_of_its_transaction(changes):
    changes.execute("update pgq.queue set queue_per_tx_limit = 2")

    with changes.transaction(force_rollback=True):
        changes.execute("select pgq.insert_event('changes', 't', 'd')")
        delay_event(changes, delay="1 hour")
        refused = error_of(
            changes, "select sluice.insert_event('changes', 't', 'd', delay => interval '1 h')"
        )

    assert refused == ("PQ004", "Queue 'changes' allows max 2 events from one TX")


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("'missing', 't', 'd', delay => interval '1 h'", ("PQ001", "No such queue")),
        ("null, 't', 'd', delay => interval '1 h'", ("22004", "Queue name must not be NULL")),
        ("'changes', 't', 'd', delay => null::interval", ("22004", "delay is null")),
        ("'changes', 't', 'd', at => null::timestamptz", ("22004", "at is null")),
        (
            "'changes', 't', 'd', at => 'infinity'::timestamptz",
            ("22023", "an event cannot be delayed to infinity"),
        ),
    ],
)
def test_invalid_delay_is_an_error(changes, arguments, wanted):
    assert error_of(changes, f"select sluice.insert_event({arguments})") == wanted


def test_a_writer_delays_without_being_superuser_and_a_reader_does_not(changes, as_member):
    query = "select sluice.insert_event('changes', 't', 'd', delay => interval '1 h')"

    for member_of in ("pgq_admin", "pgq_writer", "sluice_admin", "sluice_writer"):
        assert as_member(member_of, query) == [(None,)]
    for member_of in ("pgq_reader", "sluice_reader", "sluice_monitor"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_member(member_of, query)
