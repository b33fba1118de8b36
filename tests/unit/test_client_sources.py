"""Arguments of client constructors: a connection or a pool, and nothing else."""

from __future__ import annotations

import psycopg
import pytest

import pgsluice

DSN = "postgresql://me:s3cr3t@localhost/db"
SYNC = "needs a psycopg.Connection or a psycopg_pool.ConnectionPool, not {}; open a connection with: pgsluice.connect"
ASYNC = (
    "needs a psycopg.AsyncConnection or a psycopg_pool.AsyncConnectionPool, not {}; open a connection with: "
    "await psycopg.AsyncConnection.connect"
)


@pytest.mark.parametrize(
    ("client", "words"),
    [
        (lambda source: pgsluice.WorkQueue(source), SYNC),
        (lambda source: pgsluice.TableQueue(source), SYNC),
        (lambda source: pgsluice.EventLog(source), SYNC),
        (lambda source: pgsluice.ShareGroup(source, "log", "group"), SYNC),
        (lambda source: pgsluice.Schedules(source), SYNC),
        (lambda source: pgsluice.Inbox(source), SYNC),
        (lambda source: pgsluice.AsyncWorkQueue(source), ASYNC),
        (lambda source: pgsluice.AsyncShareGroup(source, "log", "group"), ASYNC),
    ],
)
def test_client_refuses_a_dsn_and_names_the_way_to_connect(client, words):
    with pytest.raises(TypeError) as caught:
        client(DSN)

    assert words.format("str") in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


def test_async_client_refuses_a_sync_connection():
    sync_connection = psycopg.Connection.__new__(psycopg.Connection)

    with pytest.raises(TypeError, match="needs a psycopg.AsyncConnection .* not Connection"):
        pgsluice.AsyncWorkQueue(sync_connection)
