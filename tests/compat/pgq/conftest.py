"""PgQ itself, from Debian's package, in one database, and ours in another of the same server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

CONTROL_FILE = Path("/usr/share/postgresql/15/extension/pgq.control")
PEER_TEMPLATE = "pgq_template"

_numbers = itertools.count(1)


def make_database(server: Any, name: str, template: str) -> Iterator[str]:
    """Its address; it is dropped afterwards."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"create database {name} template {template} strategy file_copy")
        try:
            yield server.url(name)
        finally:
            connection.execute(f"drop database {name} with (force)")


@pytest.fixture(scope="session")
def pgq_server(servers: Any) -> Any:
    """A PostgreSQL 15 of its own: an open transaction of another test would stop a rotation."""
    if not CONTROL_FILE.exists():
        pytest.skip("PgQ itself is not installed: apt-get install postgresql-15-pgq3")
    server = servers.get("15", "pgq")
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"create database {PEER_TEMPLATE}")
    with psycopg.connect(server.url(PEER_TEMPLATE), autocommit=True) as connection:
        connection.execute("create extension pgq")
    return server


@pytest.fixture
def pgq_pair(pgq_server: Any) -> Iterator[tuple[str, str]]:
    """The addresses of a database with our schemas and of one with PgQ."""
    number = next(_numbers)
    for ours in make_database(pgq_server, f"pgq_ours_{number}", "sluice_template"):
        for peer in make_database(pgq_server, f"pgq_peer_{number}", PEER_TEMPLATE):
            yield ours, peer


@pytest.fixture
def both(pgq_pair: tuple[str, str]) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    """A session in each of the two."""
    ours, peer = pgq_pair
    with (
        psycopg.connect(ours, autocommit=True) as mine,
        psycopg.connect(peer, autocommit=True) as theirs,
    ):
        yield mine, theirs
