"""Two databases of one server: one with PGMQ from its Python package, one with pgsluice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from importlib import resources
from typing import Any

import psycopg
import pytest

UPSTREAM_VERSION = "1.13.0"

_peer_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def upstream_sql() -> str:
    """PGMQ's own SQL, which is not part of this project."""
    pytest.importorskip("pgmq", reason="PGMQ itself is not installed: pip install pgmq==1.1.4")
    folder = resources.files("pgmq") / "sql"
    version = (folder / "VERSION").read_text().strip()
    if version != UPSTREAM_VERSION:
        pytest.skip(f"the installed package pgmq has PGMQ {version}, not {UPSTREAM_VERSION}")
    return (folder / "pgmq.sql").read_text()


def _database(server: Any, name: str, template: str) -> Iterator[str]:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"create database {name} template {template} strategy file_copy")
        try:
            yield server.url(name)
        finally:
            connection.execute(f"drop database {name} with (force)")


@pytest.fixture(scope="module")
def ours(server_18: Any) -> Iterator[psycopg.Connection]:
    """A session in a database with our schemas."""
    for url in _database(server_18, "compat_ours", "sluice_template"):
        with psycopg.connect(url, autocommit=True) as connection:
            yield connection


@pytest.fixture(scope="module")
def upstream(server_18: Any, upstream_sql: str) -> Iterator[psycopg.Connection]:
    """A session in a database with PGMQ."""
    for url in _database(server_18, "compat_upstream", "template0"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(upstream_sql)
            yield connection


# pgsluice on every PostgreSQL; PGMQ on one, to validate the tests themselves.
PEERS = (("ours", "18"), ("ours", "16"), ("ours", "15"), ("upstream", "18"))


@pytest.fixture(scope="module", params=PEERS, ids=[f"{name}-pg{v}" for name, v in PEERS])
def peer(request: pytest.FixtureRequest, servers: Any) -> Iterator[tuple[str, str]]:
    """`ours` or `upstream`, and the URL of a database with our schemas or with PGMQ."""
    name, version = request.param
    sql = "" if name == "ours" else request.getfixturevalue("upstream_sql")
    template = "sluice_template" if name == "ours" else "template0"
    # On TCP with a password, for clients without support for Unix sockets.
    server = servers.get(version, "by_tcp", tcp=True)
    for url in _database(server, f"compat_peer_{next(_peer_numbers)}", template):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(sql)
        yield name, url


@pytest.fixture(scope="module")
def observer(peer: tuple[str, str]) -> Iterator[psycopg.Connection]:
    """A session in the peer's database, for reading the tables."""
    with psycopg.connect(peer[1], autocommit=True) as connection:
        yield connection
