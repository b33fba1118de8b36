"""Real servers, a template database with the schemas in it, and a database of its own for every test."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from pgsluice import schema
from pgsluice.embedded import EmbeddedServer

TEMPLATE = "sluice_template"
# Nothing here outlives the run: durability would only cost time.
FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
}
DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
VERSIONS = ("18", "16", "15")

_database_numbers = itertools.count(1)


@dataclass(frozen=True)
class Database:
    """A database of one test's own."""

    server: EmbeddedServer
    name: str

    @property
    def url(self) -> str:
        return self.server.url(self.name)

    def connect(self, **options: object) -> psycopg.Connection:
        return psycopg.connect(self.url, **{"autocommit": True, **options})


def make_server(version: str, folder: Path, *, tcp: bool = False) -> EmbeddedServer:
    if version == "15":
        return EmbeddedServer(folder / "pg15", bin_dir=DEBIAN_15, options=FAST, tcp=tcp)
    return EmbeddedServer(folder / f"pg{version}", version=int(version), options=FAST, tcp=tcp)


def pytest_report_header() -> list[str]:
    lines = []
    for version in VERSIONS:
        if version == "15" and not DEBIAN_15.exists():
            lines.append(
                f"server: PostgreSQL 15 is not installed in {DEBIAN_15}: its tests are skipped"
            )
            continue
        bin_dir = make_server(version, Path(tempfile.gettempdir())).bin_dir
        text = os.popen(f"'{bin_dir}/postgres' --version").read().strip()
        lines.append(f"server: {text} ({bin_dir})")
    return lines


@pytest.fixture(scope="session")
def servers_folder() -> Iterator[Path]:
    # Not pytest's own folder: as root the server runs as another user, who could not enter it.
    folder = Path(tempfile.mkdtemp(prefix="pgsluice-tests-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def _started(version: str, folder: Path, *, tcp: bool = False) -> Iterator[EmbeddedServer]:
    if version == "15" and not DEBIAN_15.exists():
        pytest.skip(f"PostgreSQL 15 is not installed in {DEBIAN_15}")
    server = make_server(version, folder, tcp=tcp)
    server.start()
    try:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(f"create database {TEMPLATE}")
        with psycopg.connect(server.url(TEMPLATE)) as connection:
            schema.install(connection)
        yield server
    finally:
        server.stop("immediate")


@pytest.fixture(scope="session", params=VERSIONS, ids=[f"pg{v}" for v in VERSIONS])
def server(request: pytest.FixtureRequest, servers_folder: Path) -> Iterator[EmbeddedServer]:
    """Each supported PostgreSQL in turn."""
    yield from _started(request.param, servers_folder)


@pytest.fixture(scope="session")
def server_18(servers_folder: Path) -> Iterator[EmbeddedServer]:
    """PostgreSQL 18 alone, where the server's version cannot matter."""
    folder = servers_folder / "only"
    folder.mkdir(mode=0o755)
    yield from _started("18", folder)


@pytest.fixture(scope="session", params=VERSIONS, ids=[f"pg{v}" for v in VERSIONS])
def tcp_server(request: pytest.FixtureRequest, servers_folder: Path) -> Iterator[EmbeddedServer]:
    """Each supported PostgreSQL in turn, on TCP with a password: for clients that know no sockets."""
    folder = servers_folder / "tcp"
    folder.mkdir(mode=0o755, exist_ok=True)
    yield from _started(request.param, folder, tcp=True)


def _new_database(server: EmbeddedServer, template: str) -> Iterator[Database]:
    name = f"test_{next(_database_numbers)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"create database {name} template {template}")
        try:
            yield Database(server, name)
        finally:
            connection.execute(f"drop database {name} with (force)")


@pytest.fixture
def database(server: EmbeddedServer) -> Iterator[Database]:
    """A database with the schemas installed."""
    yield from _new_database(server, TEMPLATE)


@pytest.fixture
def database_18(server_18: EmbeddedServer) -> Iterator[Database]:
    """A database with the schemas installed, on PostgreSQL 18."""
    yield from _new_database(server_18, TEMPLATE)


@pytest.fixture
def empty_database(server: EmbeddedServer) -> Iterator[Database]:
    """A database without the schemas."""
    yield from _new_database(server, "template0")


@pytest.fixture
def connection(database: Database) -> Iterator[psycopg.Connection]:
    """A superuser's connection in autocommit mode."""
    with database.connect() as connection:
        yield connection


@pytest.fixture
def role(server: EmbeddedServer) -> Iterator[str]:
    """A login role of its own without any rights; dropped with what it owns in this test's database."""
    name = f"role_{next(_database_numbers)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"create role {name} login")
        yield name
        connection.execute(f"drop role if exists {name}")
