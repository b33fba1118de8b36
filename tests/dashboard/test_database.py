"""Readings: shared by viewers, limited in time, and read-only."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest

from pgsluice.connection import resolve
from pgsluice.dashboard.database import Database, PageSession
from pgsluice.errors import (
    ConnectionFailedError,
    PrivilegeError,
    ReadOnlyError,
    ServerError,
    SluiceError,
)
from support import wait_until
from support.proxy import BlackHole
from support.servers import Database as OwnDatabase


@pytest.fixture
def database(database_18: OwnDatabase) -> Iterator[Database]:
    database = Database(resolve(database_18.url), timeout_s=0.3, share_s=60, connections_max=4)
    database.open()
    yield database
    database.close()


def execute(session: PageSession, statement: str) -> object:
    row = session.connection.execute(statement.encode()).fetchone()
    return None if row is None else row[0]


def test_viewers_that_ask_at_once_share_one_reading(database):
    begun, go_on, read = threading.Event(), threading.Event(), []

    def slowly(session):
        read.append(1)
        begun.set()
        assert go_on.wait(10)
        return execute(session, "select 7")

    found = []
    threads = [
        threading.Thread(target=lambda: found.append(database.read(slowly, "seven")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    go_on.set()
    for thread in threads:
        thread.join()

    assert found == [7] * 8
    assert read == [1]


def test_reading_is_repeated_after_an_act(database):
    values = iter((1, 2))
    assert database.read(lambda _: next(values), "value") == 1
    assert database.read(lambda _: next(values), "value") == 1
    database.forget()
    assert database.read(lambda _: next(values), "value") == 2


def test_failed_reading_is_not_shared(database):
    with pytest.raises(ServerError):
        database.read(lambda session: execute(session, "select 1 / 0"), "value")

    assert database.read(lambda session: execute(session, "select 1"), "value") == 1


def test_statement_that_takes_too_long_is_a_part_with_a_reason(database):
    part = database.part(lambda session: execute(session, "select pg_sleep(60)"), "slow")

    assert part.value is None
    assert part.is_timeout
    assert part.problem == "not read within 0.3 s: narrow your filter"


def test_reading_cannot_write(database):
    with pytest.raises((ReadOnlyError, SluiceError)) as refused:
        database.read(lambda session: session.queues.create("q"))
    assert refused.value.sqlstate == "25006"


def test_missing_right_is_a_part_with_a_reason(database):
    def refused(_: PageSession) -> None:
        raise PrivilegeError("permission denied for table q_orders")

    assert database.part(refused).problem == "permission denied for table q_orders"


def test_connection_that_the_server_ended_is_replaced(database, database_18):
    first = database.read(lambda session: execute(session, "select pg_backend_pid()"))
    with database_18.connect() as connection:
        connection.execute("select pg_terminate_backend(%s)", (first,))

    assert database.read(lambda session: execute(session, "select pg_backend_pid()")) != first


def test_numbers_of_json_keep_their_digits(database):
    value = database.read(
        lambda session: execute(session, "select '[1.10, 12345678901234567890123, 1e400]'::jsonb")
    )

    assert [str(number) for number in value][:2] == ["1.10", "12345678901234567890123"]


def test_closed_server_is_reported(database_18):
    gone = Database(
        resolve(psycopg.conninfo.make_conninfo(database_18.url, port=1)),
        timeout_s=1,
        share_s=0,
        connections_max=1,
    )
    gone.open()
    try:
        with pytest.raises(SluiceError, match="cannot connect to .*No such file"):
            gone.read(lambda session: None)
    finally:
        gone.close()


def test_connection_limit_is_reported_with_the_text_of_the_server(database_18):
    name = f"limited_{database_18.name}"
    with database_18.connect() as connection:
        connection.execute(f"create role {name} login connection limit 0")
        full = Database(
            resolve(psycopg.conninfo.make_conninfo(database_18.url, user=name)),
            timeout_s=1,
            share_s=0,
            connections_max=1,
        )
        full.open()
        try:
            with pytest.raises(ConnectionFailedError) as refused:
                full.read(lambda session: None)
            assert f'too many connections for role "{name}"; end idle sessions' in str(
                refused.value
            )
            connection.execute(f"alter role {name} connection limit -1")
            wait_until(lambda: is_readable(full), "a connection", 30)
        finally:
            full.close()
            connection.execute(f"drop role {name}")


def is_readable(database: Database) -> bool:
    try:
        return bool(database.read(lambda session: execute(session, "select true")))
    except ConnectionFailedError:
        return False


@pytest.mark.slow
def test_silent_server_is_given_up_and_the_next_reading_uses_a_new_connection(database_18):
    there = psycopg.conninfo.conninfo_to_dict(database_18.url)
    with BlackHole(f"{there['host']}/.s.PGSQL.{there['port']}") as proxy:
        far = psycopg.conninfo.make_conninfo(database_18.url, host="127.0.0.1", port=proxy.port)
        database = Database(resolve(far), timeout_s=0.5, share_s=0, connections_max=4)
        database.open()
        try:
            assert is_readable(database)
            with pytest.raises(ConnectionFailedError, match="did not respond"):
                database.read(lambda session: proxy.swallow() or execute(session, "select 1"))
            wait_until(lambda: is_readable(database), "a new connection", 10)

            proxy.swallow()  # while the connection is unused
            wait_until(lambda: is_readable(database), "a connection", 10)
        finally:
            database.close()
