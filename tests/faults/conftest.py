"""A database with queues, worker processes, and a proxy between them."""

from __future__ import annotations

import psycopg
import pytest

from faults.workers import QUEUES, Workers
from pgsluice import WorkQueue
from support.proxy import BlackHole


@pytest.fixture
def connection(database_18):
    with database_18.connect() as connection:
        queue = WorkQueue(connection)
        for name in QUEUES:
            queue.create(name)
        connection.execute("create table effect (n bigint, attempt integer)")
        yield connection


@pytest.fixture
def queue(connection) -> WorkQueue:
    return WorkQueue(connection)


@pytest.fixture
def workers(database_18, connection, tmp_path):
    """Return a function that creates `Workers` of this database; they end with the test."""
    made = []

    def make(queues: str, *options: str, url: str | None = None) -> Workers:
        folder = tmp_path / f"workers{len(made)}"
        folder.mkdir()
        made.append(Workers(url or database_18.url, folder, queues=queues, options=options))
        return made[-1]

    yield make
    for each in made:
        each.__exit__()


@pytest.fixture
def proxy(database_18):
    there = psycopg.conninfo.conninfo_to_dict(database_18.url)
    with BlackHole(f"{there['host']}/.s.PGSQL.{there['port']}") as proxy:
        yield proxy


@pytest.fixture
def far_url(database_18, proxy) -> str:
    """The database through the proxy."""
    return psycopg.conninfo.make_conninfo(database_18.url, host="127.0.0.1", port=proxy.port)
