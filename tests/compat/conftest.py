"""The real PGMQ, from its own Python package, in one database, and ours in another of the same server."""

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
    """PGMQ's own SQL; nothing of it is part of this project."""
    pytest.importorskip("pgmq", reason="PGMQ itself is not installed: pip install pgmq==1.1.4")
    folder = resources.files("pgmq") / "sql"
    version = (folder / "VERSION").read_text().strip()
    if version != UPSTREAM_VERSION:
        pytest.skip(f"the installed package pgmq has PGMQ {version}, not {UPSTREAM_VERSION}")
    return (folder / "pgmq.sql").read_text()


def _database(server: Any, name: str, template: str) -> Iterator[str]:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"create database {name} template {template}")
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


@pytest.fixture(scope="module", params=["ours", "upstream"])
def peer(request: pytest.FixtureRequest, tcp_server: Any) -> Iterator[tuple[str, str]]:
    """Which it is, and the address: of a database with our schemas, or with PGMQ."""
    is_ours = request.param == "ours"
    sql = "" if is_ours else request.getfixturevalue("upstream_sql")
    template = "sluice_template" if is_ours else "template0"
    for url in _database(tcp_server, f"compat_peer_{next(_peer_numbers)}", template):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(sql)
        yield request.param, url


@pytest.fixture(scope="module")
def observer(peer: tuple[str, str]) -> Iterator[psycopg.Connection]:
    """A session at the peer, to look at the tables themselves."""
    with psycopg.connect(peer[1], autocommit=True) as connection:
        yield connection
