"""Queues in the transactions of SQLAlchemy: sending, clients, and handlers whose session acknowledges the message."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import ForeignKey, create_engine, select, text
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    relationship,
    scoped_session,
    sessionmaker,
)

from pgsluice import AsyncWorkQueue, EventLog, WorkQueue
from pgsluice.contrib.sqlalchemy import sending
from pgsluice.errors import ArgumentError, HandlerError, QueueNotFoundError
from pgsluice.testing import drain, drain_async, run_handler, run_handler_async
from pgsluice.worker import App, Context, Reject, RetryPolicy, SyncContext
from support import rows, value

_names = itertools.count(1)


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    lines: Mapped[list[Line]] = relationship(back_populates="order")


class Line(Base):
    __tablename__ = "line"
    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"))
    text: Mapped[str]
    order: Mapped[Order] = relationship(back_populates="lines")


@pytest.fixture(scope="module")
def url(server_18: Any) -> Iterator[str]:
    """Address of a database with the schemas and the tables of the models, for SQLAlchemy without its driver."""
    name = "sqlalchemy_contrib"
    with psycopg.connect(server_18.url(), autocommit=True) as connection:
        connection.execute(f"create database {name} template sluice_template")
        yield server_18.url(name)
        connection.execute(f"drop database {name} with (force)")


def of_driver(url: str, driver: str) -> sqlalchemy.URL:
    parts = psycopg.conninfo.conninfo_to_dict(url)
    query = {"host": str(parts["host"])} if str(parts["host"]).startswith("/") else {}
    return sqlalchemy.URL.create(
        f"postgresql+{driver}",
        username=str(parts["user"]),
        password=str(parts["password"]) if "password" in parts else None,
        host=None if query else str(parts["host"]),
        port=int(parts["port"]) if "port" in parts else None,
        database=str(parts["dbname"]),
        query=query,
    )


@pytest.fixture
def engine(url: str) -> Iterator[sqlalchemy.Engine]:
    engine = create_engine(of_driver(url, "psycopg"))
    Base.metadata.create_all(engine)
    yield engine
    Base.metadata.drop_all(engine)
    engine.dispose()


@pytest.fixture(params=["psycopg", "asyncpg"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def async_engine(url: str, engine: sqlalchemy.Engine) -> AsyncIterator[Any]:
    made = create_async_engine(of_driver(url, "psycopg"))
    yield made
    await made.dispose()


@pytest.fixture
def observer(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def queue(observer: psycopg.Connection) -> str:
    name = f"orm_{next(_names)}"
    observer.execute("select pgmq.create(%s)", [name])
    return name


def test_client_and_handler_send_in_the_transaction_of_a_session(engine, observer, queue):
    app = App()

    @app.handler(queue)
    def pack(order: dict[str, int]) -> None: ...

    with Session(engine) as session:
        session.add(Order(id=1))
        pack.send({"id": 1}, connection=session)
        WorkQueue(session).send(queue, {"id": 2})
        WorkQueue(session).send_batch(queue, [{"id": 3}, {"id": 4}])
        assert rows(observer, f"select msg_id from pgmq.q_{queue}") == []
        session.rollback()
        assert rows(observer, "select id from orders") == []
        session.add(Order(id=1))
        pack.send({"id": 5}, connection=session)
        session.commit()
        # The same client after the commit, in the next transaction of the session.
        client = WorkQueue(session)
        client.send(queue, {"id": 6})
        session.commit()
        client.send(queue, {"id": 7})
        session.rollback()

    assert [row[0] for row in rows(observer, f"select message from pgmq.q_{queue} order by 1")] == [
        {"id": 5},
        {"id": 6},
    ]
    assert rows(observer, "select id from orders") == [(1,)]


def test_connection_and_scoped_session_send_in_their_transaction(engine, observer, queue):
    with engine.connect() as connection:
        WorkQueue(connection).send(queue, 1)
        connection.rollback()
        WorkQueue(connection).send(queue, 2)
        connection.commit()
    with engine.begin() as connection:
        WorkQueue(connection).send(queue, 3)
    sessions = scoped_session(sessionmaker(engine))
    WorkQueue(sessions).send(queue, 4)
    sessions.commit()
    WorkQueue(sessions).send(queue, 5)
    sessions.remove()

    sent = rows(observer, f"select message from pgmq.q_{queue} order by 1")
    assert sent == [(2,), (3,), (4,)]


def test_messages_and_batches_read_through_a_session_have_python_objects(engine, queue):
    with Session(engine) as session:
        WorkQueue(session).send(queue, {"text": "é", "n": [1, None]})
        [message] = WorkQueue(session).read(queue, vt=30)
        assert message.message == {"text": "é", "n": [1, None]}
        assert message.enqueued_at.tzinfo is not None
        EventLog(session).create(queue)
        session.rollback()


async def test_client_and_handler_send_in_the_transaction_of_an_async_session(
    async_engine, observer, queue
):
    app = App()

    @app.handler(queue)
    async def pack(order: dict[str, int]) -> None: ...

    async with AsyncSession(async_engine) as session:
        await pack.send_async({"id": 1}, connection=session)
        await AsyncWorkQueue(session).send(queue, {"id": 2})
        await session.rollback()
        session.add(Order(id=1))
        await pack.send_async({"id": 3}, connection=session)
        await session.commit()
    async with async_engine.begin() as connection:
        await AsyncWorkQueue(connection).send(queue, {"id": 4})
    sessions = async_scoped_session(async_sessionmaker(async_engine), scopefunc=lambda: 1)
    await AsyncWorkQueue(sessions).send(queue, {"id": 5})
    await sessions.commit()
    await sessions.remove()

    sent = rows(observer, f"select message -> 'id' from pgmq.q_{queue} order by msg_id")
    assert sent == [(3,), (4,), (5,)]


async def test_statement_of_sending_runs_with_any_driver(driver, url, engine, observer, queue):
    app = App()

    @app.handler(queue)
    async def pack(order: dict[str, Any]) -> None: ...

    made = create_async_engine(of_driver(url, driver))
    async with AsyncSession(made) as session:
        first = await session.scalar(
            sending(pack, {"id": 1, "text": ":a % %s"}, key="k", delay_s=0, headers={"h": 1})
        )
        await session.commit()
        await session.execute(sending(pack, {"id": 2}))
        await session.rollback()
    await made.dispose()

    assert rows(observer, f"select msg_id, message, headers from pgmq.q_{queue}") == [
        (first, {"id": 1, "text": ":a % %s"}, {"h": 1, "x-pgmq-group": "k"})
    ]


async def test_statement_of_sending_appends_events_with_any_driver(driver, url, engine, observer):
    name = f"log_{next(_names)}"
    observer.execute("select pgq.create_queue(%s)", [name])
    app = App()

    @app.handler(log=name, group="g", event_types=["placed"])
    async def placed(order: dict[str, Any]) -> None: ...

    made = create_async_engine(of_driver(url, driver))
    async with AsyncSession(made) as session:
        event_id = await session.scalar(sending(placed, {"id": 1}, key="k"))
        await session.commit()
    await made.dispose()

    events = value(observer, "select pgq.current_event_table(%s)", name)
    assert rows(observer, f"select ev_id, ev_type, ev_data, ev_extra1 from {events}") == [
        (event_id, "placed", '{"id":1}', "k")
    ]


async def test_session_with_another_driver_is_refused_with_the_way_to_send(url, engine, queue):
    made = create_async_engine(of_driver(url, "asyncpg"))
    async with AsyncSession(made) as session:
        with pytest.raises(ArgumentError, match=r"driver of this session is asyncpg.*sending\("):
            await AsyncWorkQueue(session).send(queue, 1)
    await made.dispose()


def test_sync_and_async_sessions_are_not_mixed_up(engine, async_engine, queue):
    app = App()

    @app.handler(queue)
    def pack(order: int) -> None: ...

    with pytest.raises(ArgumentError, match="got AsyncSession of SQLAlchemy; pass a Session"):
        pack.send(1, connection=AsyncSession(async_engine))
    with Session(engine) as session, pytest.raises(ArgumentError, match="got Session"):
        asyncio.run(pack.send_async(1, connection=session))
    with pytest.raises(ArgumentError, match="got Engine of SQLAlchemy"):
        WorkQueue(engine).send(queue, 1)


def test_handler_writes_and_acknowledges_in_the_transaction_of_its_session(
    url, engine, observer, queue
):
    app, sessions = App(url), sessionmaker(engine)

    @app.handler(queue, retry=RetryPolicy(max_attempts=1))
    def pack(order: dict[str, int], context: SyncContext) -> None:
        with context.transaction(sessions) as session:
            added = Order(id=order["id"], lines=[Line(text="one"), Line(text="two")])
            session.add(added)
            session.flush()
            session.refresh(added)
            assert [line.text for line in added.lines] == ["one", "two"]
            with session.begin_nested() as savepoint:
                session.execute(text("insert into orders values (1000)"))
                savepoint.rollback()
            assert context.once("a key")
            if order["id"] == 2:
                raise Reject("no")
        if order["id"] == 3:
            raise ValueError("after the block")

    for number in (1, 2, 3):
        pack.send({"id": number})
    app.close()
    counts = drain(app)

    assert counts["pack"].done == 1
    assert rows(observer, "select id from orders") == [(1,)]
    assert rows(observer, "select text from line order by id") == [("one",), ("two",)]
    assert value(observer, f"select count(*) from pgmq.a_{queue}") == 1
    reasons = "select reason from sluice.dead_letter where queue_name = %s order by msg_id"
    assert len(rows(observer, reasons, queue)) == 2


async def test_async_handler_writes_and_acknowledges_in_the_transaction_of_its_session(
    url, async_engine, observer, queue
):
    app, sessions = App(url), async_sessionmaker(async_engine, expire_on_commit=False)

    @app.handler(queue, retry=RetryPolicy(max_attempts=1))
    async def pack(order: dict[str, int], context: Context) -> None:
        async with context.transaction(sessions) as session:
            session.add(Order(id=order["id"]))
            await session.flush()
            async with context.transaction() as same:
                assert same is session
            assert (await session.scalars(select(Order.id))).all()
            if order["id"] == 2:
                raise ValueError("no")

    for number in (1, 2):
        await pack.send_async({"id": number})
    await app.aclose()
    await drain_async(app)

    assert rows(observer, "select id from orders") == [(1,)]
    assert value(observer, f"select count(*) from pgmq.a_{queue}") == 1
    assert value(observer, "select count(*) from sluice.dead_letter where queue_name = %s", queue)


def test_mode_transaction_runs_the_handler_in_a_session_of_the_app(url, engine, observer, queue):
    app = App(url, transactions=sessionmaker(engine))

    @app.handler(queue, mode="transaction", retry=RetryPolicy(max_attempts=1))
    def pack(order: dict[str, int], context: SyncContext) -> None:
        with context.transaction() as session:
            session.add(Order(id=order["id"]))
        if order["id"] == 2:
            raise ValueError("no")

    for number in (1, 2):
        pack.send({"id": number})
    app.close()
    drain(app)

    assert rows(observer, "select id from orders") == [(1,)]
    assert value(observer, f"select count(*) from pgmq.a_{queue}") == 1


def test_handler_that_executes_nothing_in_its_session_acknowledges(url, engine, observer, queue):
    app, sessions = App(url), sessionmaker(engine)

    @app.handler(queue, retry=RetryPolicy(max_attempts=1))
    def pack(order: int, context: SyncContext) -> None:
        with context.transaction(sessions):
            pass

    pack.send(1)
    app.close()

    assert drain(app)["pack"].done == 1
    assert value(observer, f"select count(*) from pgmq.a_{queue}") == 1


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda session: session.commit(), r"use flush\(\) to write"),
        (lambda session: session.rollback(), "ended the transaction of its session"),
        (lambda session: session.close(), "ended the transaction of its session"),
    ],
)
def test_handler_that_ends_the_transaction_of_its_session_fails(
    act, message, url, engine, observer, queue
):
    app, sessions = App(url), sessionmaker(engine)

    @app.handler(queue, retry=RetryPolicy(max_attempts=1))
    def pack(order: int, context: SyncContext) -> None:
        with context.transaction(sessions) as session:
            session.add(Order(id=order))
            session.flush()
            act(session)

    pack.send(1)
    app.close()
    drain(app)

    assert rows(observer, "select id from orders") == []
    assert value(observer, f"select count(*) from pgmq.a_{queue}") == 0
    error = value(observer, "select error from sluice.dead_letter where queue_name = %s", queue)
    assert pytest.raises(AssertionError)

    assert re.search(message, error)


def test_scoped_session_in_a_handler_is_that_of_its_transaction(url, engine, observer, queue):
    app, sessions = App(url), scoped_session(sessionmaker(engine))

    @app.handler(queue)
    def pack(order: int, context: SyncContext) -> None:
        with context.transaction(sessions) as session:
            assert sessions() is session
            sessions.add(Order(id=order))

    pack.send(7)
    app.close()
    assert drain(app)["pack"].done == 1

    assert rows(observer, "select id from orders") == [(7,)]
    assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]


def test_terminated_session_of_a_handler_is_released_and_does_not_count(
    url, engine, observer, queue
):
    app, sessions, seen = App(url), sessionmaker(engine), []

    @app.handler(queue, retry=RetryPolicy(max_attempts=1))
    def pack(order: int, context: SyncContext) -> None:
        with context.transaction(sessions) as session:
            seen.append(context.attempt)
            pid = session.scalar(text("select pg_backend_pid()"))
            if len(seen) == 1:
                value(observer, "select pg_terminate_backend(%s, 5000)", pid)
            session.add(Order(id=order))

    pack.send(1)
    app.close()
    drain(app, idle_s=2.5)

    assert len(seen) == 2
    assert rows(observer, "select id from orders") == [(1,)]
    assert (
        value(observer, "select count(*) from sluice.dead_letter where queue_name = %s", queue) == 0
    )


def handler_of(queue, engine, at_two):
    """A handler that adds an order, and at order 2 also calls a function with its session."""
    sessions = sessionmaker(engine)

    @App().handler(queue)
    def pack(order: int, context: SyncContext) -> None:
        with context.transaction(sessions) as session:
            session.add(Order(id=order))
            if order == 2:
                at_two(session)

    return pack


def test_run_handler_writes_in_a_savepoint_of_the_test_session(engine, queue):
    def fail(_session):
        raise ValueError("no")

    pack = handler_of(queue, engine, fail)

    with Session(engine) as session:
        assert run_handler(pack, 1, connection=session).result == "done"
        assert run_handler(pack, 2, connection=session).failure is not None
        assert session.scalars(select(Order.id)).all() == [1]
        session.rollback()
        assert session.scalars(select(Order.id)).all() == []


def test_session_of_a_test_may_commit_after_run_handler_and_not_in_its_handler(engine, queue):
    pack = handler_of(queue, engine, Session.commit)

    with Session(engine) as session:
        for order in (1, 2, 3):
            run_handler(pack, order, connection=session)
        session.commit()
        assert session.scalars(select(Order.id)).all() == [1, 3]


def test_run_handler_refuses_a_psycopg_connection_for_the_transaction_of_an_async_session(
    url, async_engine
):
    app, sessions = App(), async_sessionmaker(async_engine)

    @app.handler("refused")
    async def pack(order: int, context: Context) -> None:
        async with context.transaction(sessions) as session:
            session.add(Order(id=order))

    needs = (
        r"context.transaction\(Session\) needs an AsyncSession, got a psycopg Connection; "
        "pass an AsyncSession to run_handler_async with connection="
    )
    with psycopg.connect(url) as connection, pytest.raises(ArgumentError, match=needs):
        run_handler(pack, 1, connection=connection)
    with (
        Session() as session,
        pytest.raises(ArgumentError, match="got Session of SQLAlchemy; pass an Async"),
    ):
        run_handler(pack, 1, connection=session)


async def test_run_handler_async_writes_in_a_savepoint_of_the_test_session(async_engine, queue):
    app, sessions = App(), async_sessionmaker(async_engine)

    @app.handler(queue)
    async def pack(order: int, context: Context) -> None:
        async with context.transaction(sessions) as session:
            session.add(Order(id=order))

    async with AsyncSession(async_engine) as session:
        settled = await run_handler_async(pack, 1, connection=session)
        assert settled.result == "done"
        assert (await session.scalars(select(Order.id))).all() == [1]
        await session.commit()


def test_other_objects_are_refused_as_the_place_of_a_transaction(url, engine, observer, queue):
    app = App(url)
    refused: list[str] = []

    @app.handler(queue)
    def pack(order: int, context: SyncContext) -> None:
        for on in ("a dsn", engine, Session(engine)):
            with pytest.raises(HandlerError) as raised, context.transaction(on):
                pass
            refused.append(str(raised.value))

    pack.send(1)
    app.close()
    assert drain(app)["pack"].done == 1
    assert "got str; pass a sessionmaker" in refused[0]
    assert "got Engine of SQLAlchemy; pass a sessionmaker" in refused[1]
    assert "got Session of SQLAlchemy; pass a sessionmaker" in refused[2]


def test_error_of_a_call_in_a_session_names_the_queue(engine):
    with Session(engine) as session, pytest.raises(QueueNotFoundError, match="nowhere"):
        WorkQueue(session).send("nowhere", 1)
