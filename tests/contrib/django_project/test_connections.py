"""Django's connections in a worker: old, broken, of threads, and those of tests."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pgsluice import WorkQueue
from pgsluice.contrib.django.app import DjangoApp
from pgsluice.errors import ConnectionFailedError
from pgsluice.testing import drain
from pgsluice.worker import Context, RetryPolicy, SyncContext
from support import rows, value, wait_until

ONCE = RetryPolicy(max_attempts=1)
TERMINATE = "select pg_terminate_backend(%s, 5000)"


def pid_of(connection: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        return int(cursor.fetchone()[0])


def dead(observer: Any, queue: str) -> list[Any]:
    query = "select message from sluice.dead_letter where queue_name = %s order by msg_id"
    return [row[0] for row in rows(observer, query, queue)]


def sessions(observer: Any) -> int:
    query = (
        "select count(*) from pg_stat_activity where datname = current_database() "
        "and backend_type = 'client backend' and pid <> pg_backend_pid()"
    )
    return int(str(value(observer, query)))


def create(order: int) -> None:
    from contrib.django_project.shop.models import Parcel

    Parcel.objects.create(order_id=order)


@pytest.mark.parametrize("closes", [True, False])
@pytest.mark.parametrize("by", ["models", "send"])
def test_terminated_session_of_a_thread_fails_one_message(
    by, closes, connection, observer, queue, max_age
):
    from django.db import connection as own

    max_age(None)
    app = DjangoApp(name="t")
    if not closes:
        app.middlewares.clear()

    @app.handler(queue, retry=ONCE, concurrency=1)
    def pack(order: int) -> None:
        create(order)
        if order == 2:
            value(observer, TERMINATE, pid_of(own))
            if by == "send":
                WorkQueue(own).send(queue, 1)
        create(order)

    WorkQueue(connection).send_batch(queue, [1, 2, 3, 4])
    drain(app)

    assert dead(observer, queue) == ([2] if closes else [2, 3, 4])


def test_session_that_is_lost_in_the_transaction_of_a_handler_does_not_count(
    connection, observer, queue, max_age
):
    max_age(None)
    app, attempts = DjangoApp(name="t"), []

    @app.handler(queue, retry=ONCE, concurrency=1)
    def pack(order: int, context: SyncContext) -> None:
        with context.transaction() as own:
            attempts.append(context.attempt)
            if len(attempts) == 1:
                value(observer, TERMINATE, pid_of(own))
            create(order)

    WorkQueue(connection).send(queue, 1)
    drain(app, idle_s=2.5)

    assert len(attempts) == 2
    assert value(observer, "select count(*) from shop_parcel") == 1
    assert dead(observer, queue) == []


def test_connection_whose_session_was_terminated_is_replaced_by_the_next_call(
    connection, observer, queue
):
    from django.db import transaction

    value(observer, TERMINATE, pid_of(connection))
    with pytest.raises(ConnectionFailedError):
        WorkQueue(connection).send(queue, 1)

    WorkQueue(connection).send(queue, 2)
    with transaction.atomic():
        WorkQueue(connection).send(queue, 3)

    assert rows(observer, f"select message from pgmq.q_{queue} order by 1") == [(2,), (3,)]


@pytest.mark.parametrize("seconds", [0, 60, None])
def test_connections_of_threads_are_kept_for_conn_max_age_and_closed_at_the_end(
    seconds, connection, observer, queue, max_age
):
    from django.db import connection as own

    max_age(seconds)
    app, pids, threads, before = DjangoApp(name="t"), [], [], sessions(observer)

    @app.handler(queue, retry=ONCE, concurrency=1)
    def pack(order: int) -> None:
        pids.append(pid_of(own))
        threads.append(threading.current_thread())

    WorkQueue(connection).send_batch(queue, [1, 2, 3])
    connection.close()
    drain(app)

    assert len(set(threads)) == 1
    assert len(set(pids)) == (3 if seconds == 0 else 1)
    threads[0].join(30)
    assert not threads[0].is_alive()
    wait_until(lambda: sessions(observer) == 0, "all sessions to end")
    assert before <= 1


@pytest.mark.parametrize("seconds", [0, 60, None])
def test_async_handler_uses_djangos_async_orm(seconds, connection, observer, queue, max_age):
    from contrib.django_project.shop.models import Parcel

    max_age(seconds)
    app = DjangoApp(name="t")

    @app.handler(queue, retry=ONCE, concurrency=4)
    async def pack(order: int) -> None:
        parcel = await Parcel.objects.acreate(order_id=order)
        parcel.note = "found"
        await parcel.asave()

    WorkQueue(connection).send_batch(queue, list(range(10)))
    connection.close()
    drain(app)

    assert dead(observer, queue) == []
    assert value(observer, "select count(*) from shop_parcel where note = 'found'") == 10
    wait_until(lambda: sessions(observer) == 0, "all sessions to end")


def test_terminated_session_of_async_handlers_fails_one_message(
    connection, observer, queue, max_age
):
    from asgiref.sync import sync_to_async
    from django.db import connection as own

    from contrib.django_project.shop.models import Parcel

    max_age(None)
    app = DjangoApp(name="t")

    @app.handler(queue, retry=ONCE, concurrency=1)
    async def pack(order: int) -> None:
        await Parcel.objects.acreate(order_id=order)
        if order == 2:
            pid = await sync_to_async(pid_of)(own)
            value(observer, TERMINATE, pid)
        await Parcel.objects.acreate(order_id=order)

    WorkQueue(connection).send_batch(queue, [1, 2, 3, 4])
    drain(app)

    assert dead(observer, queue) == [2]


def test_async_handler_has_no_transaction_of_django(connection, observer, queue):
    app = DjangoApp(name="t")

    @app.handler(queue, retry=ONCE)
    async def pack(order: int, context: Context) -> None:
        async with context.transaction():
            raise AssertionError

    WorkQueue(connection).send(queue, 1)
    drain(app)

    query = "select error from sluice.dead_letter where queue_name = %s"
    assert "use a `def` handler for context.transaction()" in value(observer, query, queue)
