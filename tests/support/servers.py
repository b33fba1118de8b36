"""Servers of the tests, with a template of a database that has the schemas, and databases of one test."""

from __future__ import annotations

import fcntl
import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from pgsluice import schema
from pgsluice.embedded import EmbeddedServer
from support.site_settings import IS_ODD, set_if_odd

NUMBERS = itertools.count(1)  # of databases and roles
TEMPLATE = "sluice_template"
# The data need not survive the run, so durability would only cost time. Statements run too rarely
# to compile them.
FAST = {
    "jit": "off",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
}
DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
VERSIONS = ("18", "16", "15")
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 8 << 30


@dataclass(frozen=True)
class Database:
    """A database that belongs to one test."""

    server: EmbeddedServer
    name: str

    @property
    def url(self) -> str:
        return self.server.url(self.name)

    def connect(self, **options: object) -> psycopg.Connection:
        return psycopg.connect(self.url, **{"autocommit": True, **options})


def make_server(version: str, folder: Path, *, tcp: bool = False) -> EmbeddedServer:
    """Return the server of a version, which is not started."""
    if version == "15":
        return EmbeddedServer(folder / "pg15", bin_dir=DEBIAN_15, options=FAST, tcp=tcp)
    return EmbeddedServer(folder / f"pg{version}", version=int(version), options=FAST, tcp=tcp)


def make_template(server: EmbeddedServer) -> None:
    """Create the template database, with the schemas installed."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"create database {TEMPLATE}")
    with psycopg.connect(server.url(TEMPLATE)) as connection:
        schema.install(connection)
    # It is copied for each test; this makes it a fifth smaller.
    with psycopg.connect(server.url(TEMPLATE), autocommit=True) as connection:
        connection.execute("vacuum full")
        # To copy and to drop a row of each right takes as long as the rest of a copy. PostgreSQL
        # uses them only to drop these roles, which no test does.
        connection.execute("set allow_system_table_mods = on")
        connection.execute(
            "delete from pg_shdepend where deptype = 'a' "
            "and dbid = (select oid from pg_database where datname = current_database())"
        )
    # The first session writes the relation cache, so that the first session of each copy need not
    # read the catalog.
    psycopg.connect(server.url(TEMPLATE)).close()


def make_servers_folder() -> Path:
    """Create a folder for the data of servers."""
    # Not pytest's own folder: as root the server runs as another user, who could not enter it. In
    # memory if there is room, as a run spends most of its time on the files of the databases.
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES
    folder = Path(tempfile.mkdtemp(prefix="pgsluice-tests-", dir=MEMORY if has_room else None))
    folder.chmod(0o755)
    return folder


class Clusters:
    """A cluster of each version, created once in a run and copied by each process for each of its servers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def copy_to(self, server: EmbeddedServer, version: str) -> None:
        """Copy the cluster of a version, which has the template, to the data directory of a server."""
        self._folder.mkdir(mode=0o755, exist_ok=True)
        with (self._folder / f"{version}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = self._folder / f"{version}.done"
            made = make_server(version, self._folder)
            if not done.exists():
                made.start()
                make_template(made)
                made.stop()
                done.touch()
        subprocess.run(["cp", "-a", made.data, server.data], check=True)


class Servers:
    """The servers of this run, each started on first use and stopped at the end."""

    def __init__(self, folder: Path, clusters: Clusters, stack: ExitStack) -> None:
        self._folder = folder
        self._clusters = clusters
        self._stack = stack
        self._started: dict[str, EmbeddedServer] = {}

    def get(self, version: str, place: str = "", *, tcp: bool = False) -> EmbeddedServer:
        """Return a server of a version, with the template; `place` distinguishes several ones."""
        if version == "15" and not DEBIAN_15.exists():
            pytest.skip(f"PostgreSQL 15 is not installed in {DEBIAN_15}")
        key = f"{place}/{version}"
        if key not in self._started:
            folder = self._folder / place
            folder.mkdir(mode=0o755, exist_ok=True)
            server = make_server(version, folder, tcp=tcp)
            self._stack.callback(server.stop, "immediate")
            if tcp:  # a copy has no password for TCP
                server.start()
                make_template(server)
            else:
                self._clusters.copy_to(server, version)
                server.start()
            self._started[key] = server
        return self._started[key]


class Admin:
    """Runs statements on servers, on a connection to each that is kept: to connect costs as much as to drop a database."""

    def __init__(self) -> None:
        self._connections: dict[Path, psycopg.Connection] = {}

    def run(self, server: EmbeddedServer, statement: str) -> None:
        try:
            self._connection(server).execute(statement)
        except psycopg.OperationalError:  # the server was restarted since
            self._connections.pop(server.data).close()
            self._connection(server).execute(statement)

    def _connection(self, server: EmbeddedServer) -> psycopg.Connection:
        if server.data not in self._connections:
            self._connections[server.data] = psycopg.connect(server.url(), autocommit=True)
        return self._connections[server.data]

    def close(self) -> None:
        while self._connections:
            self._connections.popitem()[1].close()


class Dropper:
    """Drops databases in the background, as a drop mostly waits for a checkpoint."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._last: Future[None] | None = None
        self._admin = Admin()

    def drop(self, server: EmbeddedServer, name: str) -> None:
        """Drop a database in the background, after waiting for the previous drop."""
        self.wait()
        self._last = self._thread.submit(self._drop, server, name)

    def wait(self) -> None:
        """Wait for the last drop; raise its error."""
        if self._last is not None:
            last, self._last = self._last, None
            last.result()

    def _drop(self, server: EmbeddedServer, name: str) -> None:
        self._admin.run(server, f"drop database {name} with (force)")

    def close(self) -> None:
        """Wait for the last drop, and close the connections."""
        self.wait()
        self._admin.close()


DROPPER = Dropper()
CREATOR = Admin()


@contextmanager
def new_database(server: EmbeddedServer, template: str) -> Iterator[Database]:
    """Create a database as a copy of a template for the block; drop it in the background."""
    name = f"test_{next(NUMBERS)}"
    CREATOR.run(server, f"create database {name} template {template} strategy file_copy")
    if IS_ODD:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            set_if_odd(connection, name)
    try:
        yield Database(server, name)
    finally:
        DROPPER.drop(server, name)
