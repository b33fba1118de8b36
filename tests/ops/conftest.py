"""The doctor on the test's database, and a server whose settings the tests may spoil."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgsluice.embedded import EmbeddedServer
from support.doctor import Doctor
from support.servers import (
    CREATOR,
    DROPPER,
    FAST,
    TEMPLATE,
    Database,
    make_template,
    new_database,
)

SETTINGS = {
    "max_connections": "20",
    "max_prepared_transactions": "5",
    "autovacuum_freeze_max_age": "100000",
    "max_notify_queue_pages": "64",
}


@pytest.fixture
def doctor(database_18: Database) -> Doctor:
    return Doctor(database_18.url)


@pytest.fixture
def connection(database_18: Database) -> Iterator[psycopg.Connection]:
    with database_18.connect() as connection:
        yield connection


@pytest.fixture(scope="session")
def small_server(servers_folder: Path) -> Iterator[EmbeddedServer]:
    """A server with few connections, an early freeze and a small queue of notifications."""
    server = EmbeddedServer(servers_folder / "doctor", version=18, options={**FAST, **SETTINGS})
    server.start()
    make_template(server)
    yield server
    DROPPER.wait()
    server.stop("immediate")


@pytest.fixture
def small_database(small_server: EmbeddedServer) -> Iterator[Database]:
    """A database on `small_server`, with the schemas installed."""
    with new_database(small_server, TEMPLATE) as database:
        # Tests count the connections of this server.
        CREATOR.close()
        DROPPER.close()
        yield database


@pytest.fixture
def small_doctor(small_database: Database) -> Doctor:
    return Doctor(small_database.url)
