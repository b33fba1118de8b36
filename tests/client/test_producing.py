"""Bulk inserts of events: insert_events returns ids, insert_many takes any number by COPY."""

import itertools

import pytest

from pgsluice import NewEvent
from pgsluice.client.calls import producing
from pgsluice.client.calls.producing import COPY_FROM_EVENTS
from pgsluice.errors import LogNotFoundError, LogStateError, PayloadError
from support import rows, value

FULL = NewEvent("t", "d", "1", "2", "3", "4")
# Below, at and above the number of events from which COPY is used.
COUNTS = [0, 1, COPY_FROM_EVENTS - 1, COPY_FROM_EVENTS, 3 * COPY_FROM_EVENTS]


def events(count):
    return (NewEvent("t", str(number)) for number in range(count))


def stored(observer, log_name, fields="ev_data"):
    table = value(observer, "select queue_data_pfx from pgq.queue where queue_name = %s", log_name)
    return rows(observer, f"select {fields} from {table} order by ev_id")


def test_insert_events_returns_the_ids_in_order(clients, observer, log_name):
    assert clients.log.insert_events(log_name, list(events(3))) == [1, 2, 3]

    assert stored(observer, log_name) == [("0",), ("1",), ("2",)]


def test_insert_events_stores_every_field(clients, observer, log_name):
    clients.log.insert_events(log_name, [FULL, NewEvent(None, None)])

    fields = "ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"
    assert stored(observer, log_name, fields) == [tuple(FULL), (None,) * 6]


def test_no_events_are_no_ids(clients, log_name):
    assert clients.log.insert_events(log_name, []) == []


@pytest.mark.parametrize("count", COUNTS)
def test_insert_many_takes_any_number_from_a_generator(clients, observer, log_name, count):
    assert clients.log.insert_many(log_name, events(count)) == count

    assert stored(observer, log_name) == [(str(number),) for number in range(count)]


def test_a_copy_stores_every_field_and_any_text(clients, observer, log_name):
    strange = NewEvent("\\N", 'tab\t, line\n, \\., "', "", None, "ü", "\\")

    clients.log.insert_many(log_name, itertools.repeat(strange, COPY_FROM_EVENTS))

    fields = "distinct on (ev_type) ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"
    table = value(observer, "select queue_data_pfx from pgq.queue where queue_name = %s", log_name)
    assert rows(observer, f"select {fields} from {table}") == [tuple(strange)]


def test_no_more_events_than_a_copy_needs_are_taken_ahead():
    taken = itertools.count()
    work = producing.insert_many("changes", (NewEvent("t", str(next(taken))) for _ in range(10**6)))

    assert isinstance(work, producing.Copy)
    assert next(taken) == COPY_FROM_EVENTS


@pytest.mark.parametrize("count", [3, COPY_FROM_EVENTS])
def test_on_a_connection_they_are_part_of_the_callers_transaction(
    caller, observer, log_name, count
):
    caller.log.insert_many(log_name, events(count))
    assert stored(observer, log_name) == []
    caller.source.rollback()
    assert stored(observer, log_name) == []

    caller.log.insert_many(log_name, events(count))
    caller.source.commit()
    assert len(stored(observer, log_name)) == count


def test_a_generator_that_fails_leaves_nothing(clients, observer, log_name):
    def failing():
        yield from events(2 * COPY_FROM_EVENTS)
        raise LookupError("the source is gone")

    with pytest.raises(LookupError, match="the source is gone"):
        clients.log.insert_many(log_name, failing())

    assert stored(observer, log_name) == []
    assert clients.log.insert_many(log_name, events(COPY_FROM_EVENTS)) == COPY_FROM_EVENTS


@pytest.mark.parametrize("position", [1, COPY_FROM_EVENTS + 1])
@pytest.mark.parametrize("broken", ["\x00", "\ud800", 7])
def test_invalid_text_is_named_and_nothing_is_inserted(
    clients, observer, log_name, position, broken
):
    many = [*events(position), NewEvent("t", "d", ev_extra2=broken)]

    with pytest.raises(PayloadError, match=rf"events\[{position}\]\.ev_extra2"):
        clients.log.insert_many(log_name, many)
    assert stored(observer, log_name) == []


@pytest.mark.parametrize("count", [0, 1, COPY_FROM_EVENTS])
def test_an_unknown_log_is_an_error(clients, count):
    with pytest.raises(LogNotFoundError, match=r"create it with create\("):
        clients.log.insert_many("missing", events(count))


@pytest.mark.parametrize("count", [1, COPY_FROM_EVENTS])
def test_a_closed_log_is_an_error(clients, observer, log_name, count):
    observer.execute(
        "update pgq.queue set queue_disable_insert = true where queue_name = %s", [log_name]
    )

    with pytest.raises(LogStateError, match="is closed for events"):
        clients.log.insert_many(log_name, events(count))


def test_the_limit_of_a_transaction_is_an_error(clients, observer, log_name):
    observer.execute(
        "update pgq.queue set queue_per_tx_limit = 2 where queue_name = %s", [log_name]
    )

    with pytest.raises(LogStateError, match="allows max 2 events from one TX"):
        clients.log.insert_events(log_name, list(events(3)))
    assert clients.log.insert_events(log_name, list(events(2))) == [1, 2]


@pytest.mark.parametrize("count", [1, COPY_FROM_EVENTS])
def test_a_writer_needs_no_other_right(make, shared_url, log_name, count):
    clients = make.connection(shared_url, autocommit=True, options="-c role=sluice_writer")

    assert clients.log.insert_many(log_name, events(count)) == count
