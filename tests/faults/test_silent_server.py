"""Connections of a worker to a server that stops responding without closing them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import time
from pathlib import Path

import psycopg
import pytest

import pgsluice
from pgsluice.cli.clients import one_connection
from pgsluice.connection import Target, connect
from pgsluice.sessions import Session, SessionUse, SluiceConnection
from pgsluice.worker.engine.connections import connections, sessions
from support import rows

SOURCE = Path(pgsluice.__file__).parent
CONNECTIONS = 6
ANSWER_S = 2.0


async def use_all(pools: connections.Connections) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(CONNECTIONS):
            connection = await stack.enter_async_context(pools.engine.connection())
            await connection.execute("select 1")


@contextlib.asynccontextmanager
async def opened(url):
    pools = connections.Connections(url, engine_size=CONNECTIONS, handlers_size=1)
    await pools.open()
    try:
        yield pools
    finally:
        await pools.close()


@pytest.mark.slow
def test_the_engine_waits_for_one_silent_connection_and_not_for_each(far_url, proxy, monkeypatch):
    monkeypatch.setattr(sessions, "ANSWER_S", ANSWER_S)

    async def run():
        async with opened(far_url) as pools:
            await use_all(pools)
            proxy.swallow()
            with pytest.raises(psycopg.OperationalError):
                async with pools.engine.connection() as connection:
                    await connection.execute("select 1")
            began_s = time.monotonic()
            await use_all(pools)
            return time.monotonic() - began_s

    assert asyncio.run(run()) < ANSWER_S


@pytest.mark.slow
def test_the_reset_after_a_handler_ends_within_seconds(far_url, proxy, monkeypatch):
    """In threads and tasks, the reset is the first statement after the server stops responding."""
    monkeypatch.setattr(sessions, "SIGN_S", ANSWER_S)

    async def run():
        async with opened(far_url) as pools:
            taken_s = []
            async with pools.lend() as lent:
                await lent.connection.execute("select 1")
                await lent.connection.commit()
                proxy.swallow()
                began_s = time.monotonic()
            taken_s.append(time.monotonic() - began_s)

            def in_thread():
                with pools.lend_sync() as lent:
                    lent.connection.execute("select 1")
                    lent.connection.commit()
                    proxy.swallow()
                    began_s = time.monotonic()
                taken_s.append(time.monotonic() - began_s)

            await asyncio.to_thread(in_thread)
            return taken_s

    assert all(
        ANSWER_S / 2 < taken < ANSWER_S + 3 for taken in asyncio.run(asyncio.wait_for(run(), 30))
    )


def tcp_settings(connection) -> dict[str, int]:
    """Return a connection's TCP settings: seconds, number of probes, milliseconds."""
    with socket.socket(fileno=os.dup(connection.fileno())) as copy:
        return {
            name: copy.getsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{name}"))
            for name in ("KEEPIDLE", "KEEPINTVL", "KEEPCNT", "USER_TIMEOUT")
        }


@pytest.mark.parametrize(
    ("dsn_options", "expected"),
    [
        ({}, {"KEEPIDLE": 30, "KEEPINTVL": 10, "KEEPCNT": 3, "USER_TIMEOUT": 60_000}),
        (
            {"keepalives_idle": "7", "tcp_user_timeout": "9000"},
            {"KEEPIDLE": 7, "KEEPINTVL": 10, "KEEPCNT": 3, "USER_TIMEOUT": 9_000},
        ),
    ],
    ids=["by default", "as the DSN says"],
)
def test_a_connection_whose_other_end_is_gone_is_given_up_after_a_minute(
    far_url, dsn_options, expected
):
    """The operating system does so, so the test compares the socket's settings."""

    url = psycopg.conninfo.make_conninfo(far_url, **dsn_options)

    async def run():
        async with opened(url) as pools:
            async with pools.engine.connection() as engine, pools.lend() as of_task:
                found = [tcp_settings(engine), tcp_settings(of_task.connection)]
            with pools.lend_sync() as of_thread:
                return [*found, tcp_settings(of_thread.connection)]

    assert asyncio.run(run()) == [expected] * 3
    with connect(Target(url, "test")) as connection:
        assert tcp_settings(connection) == expected
    with one_connection(Target(url, "test")) as pool, pool.connection() as connection:
        assert tcp_settings(connection) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [("", ["30", "10", "3", "60000"]), ("-c tcp_keepalives_idle=7", ["7", "10", "3", "60000"])],
    ids=["by default", "as the DSN says"],
)
@pytest.mark.parametrize("use", SessionUse)
def test_the_server_ends_the_session_of_a_client_that_is_gone_after_a_minute(
    database_18, options, expected, use
):
    """Else its transaction would keep the lock of its message; the values do not apply to a Unix socket."""
    url = psycopg.conninfo.make_conninfo(database_18.url, options=options)
    names = ["tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count"]
    query = "select reset_val from unnest(%s::text[]) with ordinality as n (wanted, place) join pg_settings on name = wanted order by place"
    with SluiceConnection.connect(url, session=Session.to(url, use)) as connection:
        assert [
            text for (text,) in rows(connection, query, [*names, "tcp_user_timeout"])
        ] == expected


def test_every_pool_gives_up_such_connections():
    makers = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(r"ConnectionPool\(|Pool\[\w+\]\(", path.read_text())
    }

    assert makers == {
        "demo/engine.py",
        *("cli/clients.py", "contrib/taskiq.py", "dashboard/database.py"),
        *("worker/engine/connections/connections.py", "pools.py"),
        "worker/upkeep/maintainer.py",
    }
    given = re.compile(r"(tcp|session)_options\(")
    assert [path for path in makers if not given.search((SOURCE / path).read_text())] == []
