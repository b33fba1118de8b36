"""Values that Python cannot load, sync and async, on a pool and a connection."""

from __future__ import annotations

import inspect
import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import psycopg
import pytest
from psycopg.types.json import set_json_loads

from pgsluice import NewEvent, UnloadableJson
from pgsluice.client.unloadable import rows_with_unloadable
from support import on_functions_and_tables, value

FUTURE = datetime(9999, 12, 31, tzinfo=UTC)
PAST = datetime(1, 1, 2, tzinfo=UTC)
FAR_TIMES = pytest.mark.parametrize(
    ("far", "loaded"),
    [
        ("infinity", FUTURE),
        ("20000-01-01 12:00+00", FUTURE),
        ("-infinity", PAST),
        ("0044-03-15 BC", PAST),
    ],
)


def send_at(observer, queue_name, far):
    observer.execute("select pgmq.send(%s, '1'::jsonb, %s::text::timestamptz)", [queue_name, far])


def streamed(clients, batch_id, fetch_qty):
    events = clients.log.stream_batch_events(batch_id, fetch_qty=fetch_qty)
    if inspect.isgenerator(events):
        return list(events)

    async def collect():
        return [event async for event in events]

    return clients.run(collect())


@FAR_TIMES
def test_messages_with_such_a_time_are_browsed(clients, observer, queue_name, far, loaded):
    send_at(observer, queue_name, far)
    clients.queue.send(queue_name, 2)

    first, second = clients.queue.browse(queue_name)
    (again,) = clients.queue.get_messages(queue_name, [first.msg_id])

    assert first.vt == again.vt == loaded
    assert [first.message, second.message] == [1, 2]
    assert abs(second.vt - second.enqueued_at) < timedelta(minutes=1)


@FAR_TIMES
def test_events_with_such_a_time_are_read_and_claimed(clients, observer, log_name, far, loaded):
    clients.log.register_consumer(log_name, "reader")
    group = clients.share_group(log_name, "g")
    group.create()
    observer.execute(
        "select pgq.insert_event_raw(%s, null, %s::text::timestamptz, null, null, 't', '1', "
        "null, null, null, null)",
        [log_name, far],
    )
    clients.log.insert_many(log_name, [NewEvent("t", "2")])
    clients.log.ticker(log_name)

    batch_id = clients.log.next_batch(log_name, "reader")
    events = clients.log.get_batch_events(batch_id)
    claimed = group.claim(10)
    pages = [streamed(clients, batch_id, fetch_qty) for fetch_qty in (1, 2, 100)]

    for found in (events, claimed, *pages):
        assert [event.ev_data for event in found] == ["1", "2"]
        assert found[0].ev_time == loaded
        assert PAST < found[1].ev_time < FUTURE
    assert group.acknowledge(claimed) == 2


def test_such_a_time_is_loaded_in_any_time_zone(make, shared_url, observer, queue_name):
    send_at(observer, queue_name, "infinity")
    clients = make.connection(shared_url, options="-c timezone=Pacific/Kiritimati")

    (message,) = clients.queue.browse(queue_name)

    assert message.vt.astimezone(timezone(timedelta(hours=14))) == FUTURE


DEEP = "[" * 3000 + "]" * 3000
DIGITS = "1" + "0" * 5000
JSON = pytest.mark.parametrize("text", [DEEP, DIGITS], ids=["deep", "digits"])


@JSON
@on_functions_and_tables
def test_read_returns_json_that_python_cannot_load_as_its_text(clients, observer, queue_name, text):
    clients.queue.send(queue_name, {"n": 1})
    clients.queue.send(queue_name, UnloadableJson(text), headers={"h": 2})
    clients.queue.send(queue_name, 3, headers=UnloadableJson(f'{{"h": {text}}}'))

    first, second, third = clients.queue.read(queue_name, 30, 3)

    assert (first.message, first.headers) == ({"n": 1}, None)
    assert isinstance(second.message, UnloadableJson)
    assert (second.message, second.headers) == (text, {"h": 2})
    assert isinstance(third.headers, UnloadableJson)
    assert (third.message, third.headers) == (3, f'{{"h": {text}}}')


@JSON
def test_such_a_message_is_sent_on_unchanged(clients, observer, queue_name, text):
    clients.queue.send(queue_name, UnloadableJson(text))
    (first,) = clients.queue.pop(queue_name)

    clients.queue.send_batch(queue_name, [first.message, 2])

    sent = f"select message::text from pgmq.q_{queue_name} order by msg_id limit 1"
    assert value(observer, sent) == text


def test_the_connection_keeps_its_own_loader_of_json(make, shared_url, observer, queue_name):
    clients = make.connection(shared_url, autocommit=True)
    set_json_loads(lambda text: json.loads(text, parse_float=Decimal), clients.source._inner)
    clients.queue.send(queue_name, 1.5)
    clients.queue.send(queue_name, UnloadableJson(DEEP))

    first, second = clients.queue.read(queue_name, 30, 2)

    assert first.message == Decimal("1.5")
    assert isinstance(first.message, Decimal)
    assert isinstance(second.message, UnloadableJson)


def test_an_error_of_the_server_is_not_taken_for_a_value_that_cannot_be_loaded(observer):
    """It is a DataError too, and the cursor may have the rows of its last page."""
    with observer.cursor() as cursor:
        cursor.execute("select 1")
        with pytest.raises(psycopg.errors.DivisionByZero) as caught, observer.cursor() as other:
            other.execute("select 1 / 0")

        with pytest.raises(psycopg.errors.DivisionByZero):
            rows_with_unloadable(cursor, caught.value)
