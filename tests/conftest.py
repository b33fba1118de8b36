"""Fixtures: real servers, a template database with the schemas, and a database for every test."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from xdist.workermanage import WorkerController

from pgsluice.embedded import EmbeddedServer
from pgsluice.sessions import AsyncSluiceConnection, SluiceConnection
from support.clock import Clock, ShiftedServer, shifted_server
from support.servers import (
    CREATOR,
    DEBIAN_15,
    DROPPER,
    FAST,
    NUMBERS,
    TEMPLATE,
    VERSIONS,
    Clusters,
    Database,
    Servers,
    make_server,
    make_servers_folder,
    make_template,
    new_database,
)
from support.site_settings import IS_ODD, READABLE

# A shell that starts the tests in the background ignores interrupts, which every process started
# here would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["support.seeds", "support.variants"]

CLUSTERS = pytest.StashKey[Path]()


def _readable(options: dict[str, Any]) -> dict[str, Any]:
    return {**options, "options": f"{READABLE} {options.get('options') or ''}"}


# Sessions that tests open themselves can be read, as a user's must; those of pgsluice are on their own.
if IS_ODD:
    _connect = psycopg.Connection.connect.__func__
    _connect_async = psycopg.AsyncConnection.connect.__func__

    def _connect_readable(cls: Any, conninfo: str = "", **options: Any) -> Any:
        if not issubclass(cls, SluiceConnection):
            given = psycopg.conninfo.conninfo_to_dict(conninfo).get("options")
            options = _readable({"options": given, **options})
        return _connect(cls, conninfo, **options)

    async def _connect_readable_async(cls: Any, conninfo: str = "", **options: Any) -> Any:
        if not issubclass(cls, AsyncSluiceConnection):
            given = psycopg.conninfo.conninfo_to_dict(conninfo).get("options")
            options = _readable({"options": given, **options})
        return await _connect_async(cls, conninfo, **options)

    psycopg.Connection.connect = classmethod(_connect_readable)  # type: ignore[method-assign, assignment]
    psycopg.connect = psycopg.Connection.connect
    psycopg.AsyncConnection.connect = classmethod(_connect_readable_async)  # type: ignore[method-assign, assignment]


def pytest_report_header(config: pytest.Config) -> list[str]:
    lines = []
    for version in VERSIONS:
        if version == "15" and not DEBIAN_15.exists():
            lines.append(
                f"server: PostgreSQL 15 is not installed in {DEBIAN_15}: its tests are skipped"
            )
            continue
        bin_dir = make_server(version, Path(tempfile.gettempdir())).bin_dir
        said = subprocess.run(
            [bin_dir / "postgres", "--version"], capture_output=True, text=True, check=True
        )
        lines.append(f"server: {said.stdout.strip()} ({bin_dir})")
    if not config.getoption("--every-version"):
        lines.append(
            "server: tests of functions, clients and races run on one version each; with --every-version on all"
        )
    return lines


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder of the clusters that all processes of a run share."""
    if not hasattr(config, "workerinput"):
        config.stash[CLUSTERS] = make_servers_folder()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(config.stash[CLUSTERS], ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Tell a process of the run where the clusters are."""
    node.workerinput["clusters"] = str(node.config.stash[CLUSTERS])


@pytest.fixture(scope="session")
def clusters(pytestconfig: pytest.Config) -> Clusters:
    given = getattr(pytestconfig, "workerinput", None)
    return Clusters(Path(given["clusters"]) if given else pytestconfig.stash[CLUSTERS])


@pytest.fixture(scope="session")
def servers_folder() -> Iterator[Path]:
    folder = make_servers_folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def servers(servers_folder: Path, clusters: Clusters) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(servers_folder, clusters, stack)
        DROPPER.close()
        CREATOR.close()


@pytest.fixture(scope="session", params=VERSIONS, ids=[f"pg{v}" for v in VERSIONS])
def server(request: pytest.FixtureRequest, servers: Servers) -> EmbeddedServer:
    """Each supported PostgreSQL."""
    return servers.get(request.param)


@pytest.fixture(scope="session")
def server_18(servers: Servers) -> EmbeddedServer:
    """PostgreSQL 18 only, for tests that do not depend on the version."""
    return servers.get("18")


@pytest.fixture
def database(server: EmbeddedServer) -> Iterator[Database]:
    """A database with the schemas installed."""
    with new_database(server, TEMPLATE) as database:
        yield database


@pytest.fixture
def database_18(server_18: EmbeddedServer) -> Iterator[Database]:
    """A database with the schemas installed, on PostgreSQL 18."""
    with new_database(server_18, TEMPLATE) as database:
        yield database


@pytest.fixture
def make_database_18(server_18: EmbeddedServer) -> Iterator[Callable[[], Database]]:
    """A function that creates a database with the schemas installed, on PostgreSQL 18."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(new_database(server_18, TEMPLATE))


@pytest.fixture
def empty_database(server: EmbeddedServer) -> Iterator[Database]:
    """A database without the schemas."""
    with new_database(server, "template0") as database:
        yield database


@pytest.fixture
def connection(database: Database) -> Iterator[psycopg.Connection]:
    """A superuser's connection in autocommit mode."""
    with database.connect() as connection:
        yield connection


@pytest.fixture(scope="session")
def clock_server(servers_folder: Path) -> Iterator[ShiftedServer]:
    """PostgreSQL 18 with a wall clock that tests can step."""
    with shifted_server(servers_folder / "clock", options=FAST) as shifted:
        make_template(shifted.server)
        yield shifted
        DROPPER.close()
        CREATOR.close()


@pytest.fixture
def clock(clock_server: ShiftedServer) -> Iterator[Clock]:
    """The clock of `clock_database`, correct before and after the test."""
    clock_server.clock.set(0)
    yield clock_server.clock
    clock_server.clock.set(0)


@pytest.fixture
def clock_database(clock_server: ShiftedServer, clock: Clock) -> Iterator[Database]:
    """A database with the schemas installed, on a server whose wall clock is `clock`."""
    with new_database(clock_server.server, TEMPLATE) as database:
        yield database
        clock.set(0)


@pytest.fixture
def role(server: EmbeddedServer) -> Iterator[str]:
    """A login role without privileges; dropped with its objects in this test's database."""
    name = f"role_{next(NUMBERS)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"create role {name} login")
        yield name
        DROPPER.wait()  # its privileges in a database are dropped with it
        connection.execute(f"drop role if exists {name}")
