"""Sending and clients on Django's connections."""

from __future__ import annotations

import contextlib
import itertools
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from pgsluice import AsyncWorkQueue, EventLog, WorkQueue
from pgsluice.contrib.django.app import DjangoApp
from pgsluice.errors import ArgumentError, QueueNotFoundError, ResultTimeoutError
from pgsluice.testing import drain
from pgsluice.worker import App
from support import rows

_names = itertools.count(1)


def messages(observer: psycopg.Connection, queue: str) -> list[Any]:
    return [row[0] for row in rows(observer, f"select message from pgmq.q_{queue} order by msg_id")]


def parcels(observer: psycopg.Connection) -> list[int]:
    return [row[0] for row in rows(observer, "select order_id from shop_parcel order by id")]


def test_messages_are_sent_in_the_transaction_of_atomic(connection, observer, queue):
    from django.db import transaction

    from contrib.django_project.shop.models import Parcel

    app = App()

    @app.handler(queue)
    def pack(order: int) -> None: ...

    with transaction.atomic():
        Parcel.objects.create(order_id=1)
        pack.send(1, connection=connection)
        WorkQueue(connection).send(queue, 2)
        WorkQueue(connection).send_batch(queue, [3, 4])
        with suppress(ZeroDivisionError), transaction.atomic():
            pack.send(5, connection=connection)
            raise ZeroDivisionError
        with transaction.atomic():
            pack.send(6, connection=connection)
        assert messages(observer, queue) == []
    assert messages(observer, queue) == [1, 2, 3, 4, 6]
    assert parcels(observer) == [1]

    with suppress(ZeroDivisionError), transaction.atomic():
        pack.send(7, connection=connection)
        Parcel.objects.create(order_id=2)
        raise ZeroDivisionError
    assert len(messages(observer, queue)) == 5
    assert parcels(observer) == [1]


def test_handler_of_an_app_of_django_sends_on_djangos_connection(connection, observer, queue):
    from django.db import transaction

    app = DjangoApp(name="t")

    @app.handler(queue)
    def pack(order: int) -> None: ...

    with suppress(ZeroDivisionError), transaction.atomic():
        pack.send(1)
        raise ZeroDivisionError
    with transaction.atomic():
        pack.send(2)
        pack.send_many([3, 4])
        assert messages(observer, queue) == []
    pack.send(5, connection=observer)

    assert messages(observer, queue) == [2, 3, 4, 5]


async def test_handler_of_an_app_of_django_sends_in_an_event_loop(url, observer, queue):
    from asgiref.sync import sync_to_async
    from django.db import connection

    app = DjangoApp(name="t")

    @app.handler(queue)
    async def pack(order: int) -> None: ...

    await pack.send_async(1)
    await pack.send_many_async([2, 3])
    await pack.send_async(4, connection=connection)
    await sync_to_async(lambda: connection.close())()

    assert messages(observer, queue) == [1, 2, 3, 4]


def test_message_outside_of_atomic_is_sent_at_once(connection, observer, queue):
    WorkQueue(connection).send(queue, 1)

    assert messages(observer, queue) == [1]


def test_message_sent_by_a_hook_of_on_commit_is_sent_after_the_commit(connection, observer, queue):
    from django.db import transaction

    seen = []

    def send() -> None:
        seen.append(connection.in_atomic_block)
        WorkQueue(connection).send(queue, 1)

    with transaction.atomic():
        transaction.on_commit(send)
        assert seen == []

    assert seen == [False]
    assert messages(observer, queue) == [1]


@pytest.mark.parametrize("use_tz", [True, False])
def test_messages_read_through_djangos_connection_have_python_objects(use_tz, connection, queue):
    from django.test import override_settings

    payload = {"text": "é", "n": [1, None, 1.5]}
    with override_settings(USE_TZ=use_tz):
        WorkQueue(connection).send(queue, payload, headers={"h": 1})
        [message] = WorkQueue(connection).read(queue, vt=30)
        with connection.cursor() as cursor:
            cursor.execute(f"select message, enqueued_at from pgmq.q_{queue}")
            text, sent_at = cursor.fetchone()

    assert message.message == payload
    assert message.headers == {"h": 1}
    assert message.enqueued_at.utcoffset() is not None
    # Django's own cursors are unchanged.
    assert isinstance(text, str)
    assert (sent_at.tzinfo is not None) is use_tz


def test_events_read_through_djangos_connection_are_settled(connection, observer):
    name = f"log_{next(_names)}"
    log = EventLog(connection)
    log.create(name)
    log.register_consumer(name, "c")
    log.insert_event(name, "placed", '{"id": 1}')
    log.log_tick(name)

    batch = log.next_batch(name, "c")
    [event] = log.get_batch_events(batch)

    assert event.ev_data == '{"id": 1}'
    assert event.ev_time.tzinfo is not None


def test_error_of_a_call_on_djangos_connection_names_the_queue(connection):
    with pytest.raises(QueueNotFoundError, match="nowhere"):
        WorkQueue(connection).send("nowhere", 1)


async def test_async_client_refuses_djangos_connection_with_the_way_to_send(url):
    from django.db import connection

    app = App()

    @app.handler("q")
    async def pack(order: int) -> None: ...

    with pytest.raises(ArgumentError, match=r"sync_to_async\(handler.send\)"):
        await AsyncWorkQueue(connection).send("q", 1)
    with pytest.raises(ArgumentError, match=r"sync_to_async\(handler.send\)"):
        await pack.send_async(1, connection=connection)


def test_result_is_awaited_on_djangos_server_and_not_on_that_of_the_environment(
    connection, queue, monkeypatch
):
    monkeypatch.setenv("PGSLUICE_DSN", "postgresql://127.0.0.1:1/elsewhere")
    app = DjangoApp(name="t")

    @app.handler(queue, keep_result="1h")
    def double(number: int) -> int:
        return 2 * number

    msg_id = double.send(4)
    with contextlib.closing(app), pytest.raises(ResultTimeoutError):
        double.result(msg_id, timeout_s=0.1)  # listens on a connection of its own
    drain(app)

    assert double.result(msg_id, timeout_s=0) == 8
