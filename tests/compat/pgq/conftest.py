"""Two databases of one server: one with PgQ from Debian's package, one with pgsluice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from compat.pgq.installations import Installation

CONTROL_FILE = Path("/usr/share/postgresql/15/extension/pgq.control")
PEER_TEMPLATE = "pgq_template"

# PgQ's programs run on pgsluice with the oldest and the newest PostgreSQL, and on PgQ itself to
# validate the tests.
INSTALLATIONS = (("ours", "15"), ("ours", "18"), ("pgq", "15"))

_numbers = itertools.count(1)


def make_database(server: Any, name: str, template: str) -> Iterator[str]:
    """Create a database and yield its URL; drop it afterwards."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"create database {name} template {template} strategy file_copy")
        try:
            yield server.url(name)
        finally:
            connection.execute(f"drop database {name} with (force)")


@pytest.fixture(scope="session")
def pgq_server(servers: Any) -> Any:
    """A separate PostgreSQL 15, as open transactions of other tests would stop rotation."""
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
    """The URLs of a database with our schemas and of one with PgQ."""
    number = next(_numbers)
    for ours in make_database(pgq_server, f"pgq_ours_{number}", "sluice_template"):
        for peer in make_database(pgq_server, f"pgq_peer_{number}", PEER_TEMPLATE):
            yield ours, peer


@pytest.fixture
def both(pgq_pair: tuple[str, str]) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    """A session in each of the two databases."""
    ours, peer = pgq_pair
    with (
        psycopg.connect(ours, autocommit=True) as mine,
        psycopg.connect(peer, autocommit=True) as theirs,
    ):
        yield mine, theirs


@pytest.fixture(params=INSTALLATIONS, ids=[f"{name}-pg{v}" for name, v in INSTALLATIONS])
def installation(request: pytest.FixtureRequest, servers: Any) -> Iterator[Installation]:
    name, version = request.param
    is_ours = name == "ours"
    server = servers.get(version, "pgq") if is_ours else request.getfixturevalue("pgq_server")
    number = next(_numbers)
    role = f"pgq_role_{number}"
    template = "sluice_template" if is_ours else PEER_TEMPLATE
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"create role {role} login in role pgq_admin")
        for url in make_database(server, f"pgq_installation_{number}", template):
            words = psycopg.conninfo.conninfo_to_dict(url) | {"user": role}
            yield Installation(is_ours, url, role, psycopg.conninfo.make_conninfo(**words))
            with psycopg.connect(url, autocommit=True) as inside:
                inside.execute(f"drop owned by {role}")
        connection.execute(f"drop role {role}")


@pytest.fixture
def observer(installation: Installation) -> Iterator[psycopg.Connection]:
    """A superuser's session."""
    with psycopg.connect(installation.url, autocommit=True) as connection:
        yield connection
