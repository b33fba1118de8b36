"""Assertions on sent messages, and time that passes without waiting, in a transaction of the test."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from pgsluice import EventLog, Schedules, WorkQueue
from pgsluice.errors import ArgumentError, PayloadError
from pgsluice.testing import (
    advance_time,
    advance_time_async,
    assert_sent,
    assert_sent_async,
    sent,
    sent_async,
)
from pgsluice.worker import App
from support import rows, value

HOUR = timedelta(hours=1)


@dataclass
class Parcel:
    id: int


app = App()


@app.handler("sent_parcels")
def ship(parcel: Parcel) -> None: ...


@app.handler("sent_notes")
def note(payload: dict) -> None: ...


@app.handler(log="sent_events", group="mailers", event_types=["paid", "refunded"])
def mail(parcel: Parcel) -> None: ...


@pytest.fixture
def connection(worker_url):
    with psycopg.connect(worker_url) as connection:
        app.create_queues(connection)
        yield connection
        connection.rollback()


def test_a_message_of_an_open_transaction_is_found_by_its_payload(connection):
    message_id = ship.send(
        Parcel(7), connection=connection, key="k", headers={"tenant": "a", "n": 1}
    )
    ship.send(Parcel(8), connection=connection, delay_s=60)

    [found] = assert_sent(ship, payload=Parcel(7), count=1, connection=connection)

    assert (found.message_id, found.payload, found.key) == (message_id, Parcel(7), "k")
    assert found.headers["tenant"] == "a"
    assert found.due_at is None
    [delayed] = assert_sent(ship, is_delayed=True, key=None, connection=connection)
    assert delayed.payload == Parcel(8)
    assert delayed.due_at > datetime.now(UTC)
    assert [message.payload.id for message in sent(ship, connection=connection)] == [7, 8]
    assert_sent(ship, headers={"tenant": "a"}, is_delayed=False, count=1, connection=connection)


def test_an_assertion_that_fails_lists_the_messages_that_wait(connection):
    with pytest.raises(AssertionError, match=r"for <handler 'ship' .*>; there are none"):
        assert_sent(ship, connection=connection)
    ship.send_many([Parcel(7)] * 12, connection=connection)

    with pytest.raises(AssertionError) as raised:
        assert_sent(ship, payload=Parcel(9), key=None, connection=connection)
    with pytest.raises(AssertionError, match="expected 0 messages for .*; 12 of 12 match"):
        assert_sent(ship, count=0, connection=connection)

    first, *listed, last = str(raised.value).splitlines()
    assert first.startswith("expected one or more messages for <handler 'ship'")
    assert first.endswith("with payload=Parcel(id=9), key=None; 0 of 12 match:")
    assert listed == ["  Parcel(id=7) key=None headers={} due_at=None"] * 10
    assert last == "  and 2 more"


def test_an_assertion_refuses_a_payload_of_another_type_and_unknown_options(connection):
    ship.send(Parcel(7), connection=connection)
    with pytest.raises(PayloadError, match=r"payload.id is of type str"):
        assert_sent(ship, payload=Parcel("7"), connection=connection)
    with pytest.raises(ArgumentError, match="has no option 'paylod'|paylod"):
        assert_sent(ship, paylod=1, connection=connection)


def test_true_is_not_the_number_one_in_a_payload_or_a_header(connection):
    note.send({"paid": [True]}, connection=connection, headers={"urgent": True})

    assert_sent(note, payload={"paid": [1]}, count=0, connection=connection)
    assert_sent(note, headers={"urgent": 1}, count=0, connection=connection)
    assert_sent(note, payload={"paid": [True]}, headers={"urgent": True}, connection=connection)
    note.send({"cents": 1.0}, connection=connection)
    assert_sent(note, payload={"cents": 1}, count=1, connection=connection)


def test_events_of_a_handler_are_found_by_its_types(connection):
    log = EventLog(connection)
    mail.send(Parcel(1), event_type="paid", key="k", connection=connection)
    mail.send(Parcel(2), event_type="refunded", delay_s=60, connection=connection)
    log.insert_event("sent_events", "other", "{}")
    log.insert_event("sent_events", "paid", "no JSON")

    found = sent(mail, connection=connection)

    assert [message.payload for message in found] == [Parcel(1), "no JSON", Parcel(2)]
    assert (found[0].key, found[0].headers["ev_type"]) == ("k", "paid")
    assert (found[2].message_id, found[2].headers["ev_type"]) == (None, "refunded")
    assert_sent(mail, payload=Parcel(2), is_delayed=True, count=1, connection=connection)


def test_committed_messages_are_found_by_a_connection_of_the_app(worker_url):
    own = App(worker_url)

    @own.handler("sent_committed")
    def handle(number: int) -> None: ...

    with psycopg.connect(worker_url, autocommit=True) as connection:
        own.create_queues(connection)
        with connection.transaction(force_rollback=True):
            handle.send(1, connection=connection)
            assert_sent(handle, count=0)
    handle.send(2)

    assert_sent(handle, payload=2, count=1)
    own.close()


def test_messages_of_a_session_of_sqlalchemy_are_found_before_its_commit(worker_url):
    engine = create_engine(worker_url.replace("postgresql://", "postgresql+psycopg://"))
    with Session(engine) as session:
        WorkQueue(session).create("sent_parcels")
        ship.send(Parcel(7), connection=session)

        assert_sent(ship, payload=Parcel(7), count=1, connection=session)
        advance_time(session, HOUR)
    engine.dispose()


async def test_in_an_event_loop_the_same_is_awaited(worker_url):
    async with await psycopg.AsyncConnection.connect(worker_url) as connection:
        await connection.execute("select pgmq.create('sent_parcels')")
        await ship.send_async(Parcel(7), connection=connection, delay_s=60)

        assert [each.payload for each in await sent_async(ship, connection=connection)] == [
            Parcel(7)
        ]
        await advance_time_async(connection, HOUR)

        await assert_sent_async(ship, is_delayed=False, count=1, connection=connection)
        await connection.rollback()


def test_a_delayed_message_is_read_after_its_delay_has_passed(connection):
    queue = WorkQueue(connection)
    ship.send(Parcel(1), connection=connection, delay_s=90 * 60)

    advance_time(connection, HOUR)
    first = queue.read("sent_parcels")
    advance_time(connection, HOUR)
    [message] = queue.read("sent_parcels", vt=30)
    leased = queue.read("sent_parcels")
    advance_time(connection, HOUR)

    assert (first, leased, message.message) == ([], [], {"id": 1})
    assert queue.read("sent_parcels")[0].read_ct == 2  # its lease had expired


def test_a_delayed_event_is_appended_once_its_delay_has_passed(connection):
    mail.send(Parcel(1), event_type="paid", delay_s=90 * 60, connection=connection)
    mail.send(Parcel(2), event_type="paid", delay_s=30 * 60, connection=connection)

    advance_time(connection, HOUR)
    one = [(each.payload.id, each.due_at is None) for each in sent(mail, connection=connection)]
    advance_time(connection, HOUR)
    advance_time(connection, HOUR)

    assert one == [(2, True), (1, False)]
    assert [each.payload.id for each in sent(mail, connection=connection)] == [2, 1]


def test_a_delayed_event_of_an_earlier_transaction_is_appended_once(worker_url):
    with psycopg.connect(worker_url, autocommit=True) as connection:
        app.create_queues(connection)
        log = EventLog(connection)
        try:
            for number, delay_s in ((1, 30 * 60), (2, 90 * 60)):
                mail.send(Parcel(number), event_type="paid", delay_s=delay_s, connection=connection)
            log.maint_retry_events()  # a pass whose snapshot has both
            advance_time(connection, HOUR)
            log.maint_retry_events()
            one = [each.payload.id for each in sent(mail, connection=connection) if each.message_id]
            advance_time(connection, HOUR)
            log.maint_retry_events()
            two = [each.payload.id for each in sent(mail, connection=connection)]
        finally:
            log.drop("sent_events", force=True)

    assert (one, two) == ([1], [1, 2])


def test_an_event_that_a_consumer_retries_is_redelivered_after_its_delay(worker_url):
    with psycopg.connect(worker_url, autocommit=True) as connection:
        log = EventLog(connection)
        log.create("sent_retried")
        try:
            log.register_consumer("sent_retried", "one")
            ev_id = log.insert_event("sent_retried", "a", "b")
            log.log_tick("sent_retried")
            batch_id = log.next_batch("sent_retried", "one")
            log.event_retry(batch_id, ev_id, 600)
            log.finish_batch(batch_id)
            advance_time(connection, HOUR)
            log.log_tick("sent_retried")
            batch_id = log.next_batch("sent_retried", "one")
            events = log.get_batch_events(batch_id)
        finally:
            log.drop("sent_retried", force=True)

    assert [(event.ev_id, event.ev_retry) for event in events] == [(ev_id, 1)]


def test_each_slot_of_a_schedule_fires_once_when_time_passes(connection):
    schedules = Schedules(connection)
    schedules.schedule("hourly", "sent_parcels", {"id": 1}, every_s=3600, catch_up="all")
    schedules.schedule("daily", "sent_parcels", {"id": 2}, cron="0 3 * * *")
    schedules.schedule("paused", "sent_parcels", {"id": 3}, every_s=3600)
    schedules.pause_schedule("paused")

    none = advance_time(connection, timedelta(minutes=59))
    hourly = advance_time(connection, timedelta(hours=2))
    daily = advance_time(connection, timedelta(days=1))
    again = advance_time(connection, timedelta(days=1))

    assert none == [] or {slot.name for slot in none} == {"daily"}  # three o'clock is near
    assert [slot.name for slot in hourly if slot.name == "hourly"] == ["hourly"] * 2
    for slots in (daily, again):
        assert [slot.name for slot in slots if slot.name == "daily"] == ["daily"]
        assert all(slot.error is None for slot in slots)
    assert schedules.fire_schedules() == []
    assert_sent(ship, payload=Parcel(3), count=0, connection=connection)


def test_a_cron_schedule_fires_at_the_times_of_the_calendar(connection):
    Schedules(connection).schedule(
        "daily", "sent_parcels", {"id": 2}, cron="0 3 * * *", catch_up="all"
    )

    slots = [slot.slot for slot in advance_time(connection, timedelta(days=3))]

    assert len(slots) == 3
    assert {(slot.hour, slot.minute) for slot in slots} == {(3, 0)}
    assert_sent(ship, payload=Parcel(2), count=3, connection=connection)


def test_moved_times_are_rolled_back_with_the_test(worker_url):
    with psycopg.connect(worker_url, autocommit=True) as connection:
        WorkQueue(connection).create("sent_parcels")
        ship.send(Parcel(1), connection=connection, delay_s=60)
        before = rows(connection, "select vt from pgmq.q_sent_parcels")
        with connection.transaction(force_rollback=True):
            advance_time(connection, HOUR)
            assert rows(connection, "select vt from pgmq.q_sent_parcels") != before

        assert rows(connection, "select vt from pgmq.q_sent_parcels") == before
        WorkQueue(connection).drop_queue("sent_parcels")
        assert (
            value(connection, "select count(*) from pgmq.meta where queue_name = 'sent_parcels'")
            == 0
        )


@pytest.mark.parametrize("by", [timedelta(0), -HOUR, 60])
def test_time_does_not_go_backwards(connection, by):
    with pytest.raises(ArgumentError, match="by is .*; pass a positive timedelta"):
        advance_time(connection, by)
