"""Sending to handlers on a real server, in the caller's transaction and on own connections."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool

from pgsluice import WorkQueue
from pgsluice.errors import ArgumentError, ConnectionFailedError, QueueNotFoundError
from pgsluice.worker import App
from support import rows, value


@dataclass
class Order:
    id: int


@pytest.fixture
def app(worker_url, queue_name, observer):
    """An app with a handler of a queue, `mail`, and one of a log, `paid`."""
    app = App(worker_url, name="a shop")
    observer.execute("select pgq.create_queue(%s)", [f"log_{queue_name}"])

    @app.handler(queue_name)
    def mail(order: Order) -> None: ...

    @app.handler(log=f"log_{queue_name}", group="mailers", event_types=["paid"])
    def paid(order: Order) -> None: ...

    app.mail, app.paid = mail, paid
    yield app
    app.close()


def stored(observer, queue_name):
    return rows(observer, f"select message, headers from pgmq.q_{queue_name} order by msg_id")


def events(observer, queue_name):
    query = "select queue_data_pfx from pgq.queue where queue_name = %s"
    table = value(observer, query, f"log_{queue_name}")
    return rows(
        observer, f"select ev_type, ev_data, ev_extra1, ev_extra2 from {table} order by ev_id"
    )


def test_a_message_and_an_event_are_there_after_the_commit_and_not_after_a_rollback(
    app, worker_url, queue_name, observer
):
    with psycopg.connect(worker_url) as connection:
        app.mail.send(Order(1), connection=connection)
        app.paid.send(Order(1), connection=connection)
        connection.rollback()
        with connection.transaction():
            connection.execute("insert into effect values (%s, 1, 'ordered')", [queue_name])
            assert app.mail.send(Order(2), connection=connection, key="ann", headers={"h": 1}) == 2
            assert app.paid.send(
                Order(2), connection=connection, key="ann", headers={"ev_extra2": "x"}
            )
            assert stored(observer, queue_name) == []

    assert stored(observer, queue_name) == [({"id": 2}, {"h": 1, "x-pgmq-group": "ann"})]
    assert events(observer, queue_name) == [("paid", '{"id":2}', "ann", "x")]
    assert value(observer, "select note from effect where queue_name = %s", queue_name) == "ordered"


async def test_in_an_event_loop_the_same(app, worker_url, queue_name, observer):
    async with await psycopg.AsyncConnection.connect(worker_url) as connection:
        await app.mail.send_async(Order(1), connection=connection)
        await connection.rollback()
        assert await app.mail.send_many_async([Order(2), Order(3)], connection=connection) == [2, 3]
        await app.paid.send_async(Order(4), connection=connection)
    async with AsyncConnectionPool(worker_url, min_size=1, open=False) as pool:
        assert await app.mail.send_async(Order(5), connection=pool) == 4
    assert await app.mail.send_async(Order(6)) == 5
    await app.aclose()

    assert [message["id"] for message, _ in stored(observer, queue_name)] == [2, 3, 5, 6]
    assert events(observer, queue_name) == [("paid", '{"id":4}', None, None)]


def test_many_are_sent_at_once_all_or_none(app, queue_name, observer):
    ids = app.mail.send_many(
        (Order(i) for i in range(3)), keys=["a", None, "b"], headers=[None, {"h": 1}, {"h": 2}]
    )

    assert ids == [1, 2, 3]
    assert stored(observer, queue_name) == [
        ({"id": 0}, {"x-pgmq-group": "a"}),
        ({"id": 1}, {"h": 1}),
        ({"id": 2}, {"h": 2, "x-pgmq-group": "b"}),
    ]
    assert len(app.paid.send_many([Order(1), Order(2)], keys=["a", None])) == 2
    assert events(observer, queue_name) == [
        ("paid", '{"id":1}', "a", None),
        ("paid", '{"id":2}', None, None),
    ]


def test_a_message_has_the_priority_that_is_said(app, queue_name, observer):
    app.mail.send(Order(1), priority=1, headers={"h": 1})
    app.mail.send_many([Order(2)], priority=3, keys=["a"])

    assert [headers for _, headers in stored(observer, queue_name)] == [
        {"h": 1, "x-pgmq-priority": 1},
        {"x-pgmq-priority": 3, "x-pgmq-group": "a"},
    ]
    with pytest.raises(ArgumentError, match="priority is 0; use 1 to"):
        app.mail.send(Order(1), priority=0)
    with pytest.raises(ArgumentError, match="priority and the header 'x-pgmq-priority' differ"):
        app.mail.send(Order(1), priority=1, headers={"x-pgmq-priority": 2})
    with pytest.raises(ArgumentError, match="is for a log, which does not support priority"):
        app.paid.send(Order(1), priority=1)


def test_a_message_waits_as_long_as_is_said_or_until_a_time(app, queue_name, observer):
    app.mail.send(Order(1), delay_s=3600)
    app.mail.send(Order(2), at=datetime.now(UTC) + timedelta(hours=2))
    app.mail.send_many([Order(3)], delay_s=60)
    assert app.paid.send(Order(4), delay_s=3600) is None

    query = f"select round(extract(epoch from vt - now()) / 60) from pgmq.q_{queue_name} order by msg_id"
    assert rows(observer, query) == [(60,), (120,), (1,)]
    assert value(observer, "select sluice.count_delayed(%s)", f"log_{queue_name}") == 1


def test_a_message_with_a_known_key_is_stored_once(app, queue_name, observer):
    WorkQueue(observer).set_queue_options(queue_name, deduplication_window=timedelta(hours=1))

    assert app.mail.send(Order(1), deduplication_key="order 1") == 1
    assert app.mail.send(Order(1), deduplication_key="order 1") == 1
    assert app.mail.send_many([Order(1), Order(2)], deduplication_keys=["order 1", None]) == [1, 2]


def test_the_apps_own_connections_are_opened_when_they_are_needed_and_after_a_close_again(
    app, queue_name, observer
):
    mine = "select count(*) from pg_stat_activity where application_name = 'pgsluice a shop'"
    assert value(observer, mine) == 0

    for _ in range(3):
        app.mail.send(Order(1))

    assert value(observer, mine) == 1
    observer.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name ~ 'a shop'"
    )
    assert app.mail.send(Order(2)) == 4  # broken connections are detected before use
    app.close()
    assert app.mail.send(Order(3)) == 5


def test_many_threads_and_event_loops_send_at_once(app, queue_name, observer):
    async def send_some(first):
        await asyncio.gather(*(app.mail.send_async(Order(first + i)) for i in range(10)))
        await app.aclose()

    threads = [
        threading.Thread(target=lambda i=i: [app.mail.send(Order(i * 10 + j)) for j in range(10)])
        for i in range(3)
    ]
    threads += [
        threading.Thread(target=lambda i=i: asyncio.run(send_some(i * 10))) for i in range(3, 6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sorted(message["id"] for message, _ in stored(observer, queue_name)) == list(range(60))


def _send_in_child(app, number):
    app.mail.send(Order(number))
    app.close()


@pytest.mark.filterwarnings(
    "ignore:.*fork:DeprecationWarning"
)  # since Python 3.12; the test does it on purpose
def test_a_process_that_was_forked_has_connections_of_its_own(app, queue_name, observer):
    app.mail.send(Order(1))

    child = multiprocessing.get_context("fork").Process(target=_send_in_child, args=(app, 2))
    child.start()
    child.join(60)
    app.mail.send(Order(3))

    assert child.exitcode == 0
    assert [message["id"] for message, _ in stored(observer, queue_name)] == [1, 2, 3]


def test_unreachable_server_is_reported_immediately(tmp_path):
    lost = App(f"host={tmp_path} user=nobody")

    @lost.handler("q")
    def handle(order: Order) -> None: ...

    with pytest.raises(ConnectionFailedError, match="check that the server runs there"):
        handle.send(Order(1))
    with pytest.raises(ConnectionFailedError, match="check that the server runs there"):
        asyncio.run(handle.send_async(Order(1)))


async def test_a_connection_of_the_wrong_kind_is_refused_before_anything_is_sent(app, observer):
    with pytest.raises(ArgumentError, match="connection is a Connection; use send"):
        await app.mail.send_async(Order(1), connection=observer)
    async with await psycopg.AsyncConnection.connect(app.dsn) as connection:
        with pytest.raises(ArgumentError, match="is a AsyncConnection; await send_async"):
            app.mail.send(Order(1), connection=connection)
    with pytest.raises(
        ArgumentError, match="connection is a str; pass a connection or pool of psycopg"
    ):
        app.mail.send(Order(1), connection=app.dsn)


def test_a_queue_that_does_not_exist_is_named(worker_url, observer):
    other = App()

    @other.handler("nowhere")
    def handle(order: Order) -> None: ...

    with pytest.raises(QueueNotFoundError, match="queue 'nowhere' does not exist; create it with"):
        handle.send(Order(1), connection=observer)


def test_a_writer_may_send_who_may_do_nothing_else(app, worker_url, queue_name, observer):
    observer.execute("drop role if exists shop_writer")
    observer.execute("create role shop_writer in role sluice_writer, pgq_writer")
    with psycopg.connect(worker_url) as connection:
        connection.execute("set role shop_writer")
        assert app.mail.send(Order(1), connection=connection) == 1
        assert app.mail.send_many([Order(2)], connection=connection) == [2]
        assert app.paid.send(Order(3), connection=connection)
    observer.execute("drop role shop_writer")
