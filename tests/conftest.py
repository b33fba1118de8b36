"""Fixtures: real servers, a template database with the schemas, and a database for every test."""

from __future__ import annotations

import fcntl
import re
import shutil
import signal
import subprocess
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from pgsluice import schema
from pgsluice.embedded import EmbeddedServer
from pgsluice.sessions import AsyncSluiceConnection, SluiceConnection
from support import NUMBERS
from support.clock import Clock, ShiftedServer, shifted_server
from support.site_settings import IS_ODD, READABLE, set_if_odd

# A shell that starts the tests in the background ignores interrupts, which every process started
# here would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["support.seeds"]

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
# Each of these tests runs on one version, chosen by its name, unless --every-version is given. All
# others, such as those of upstream's suites, run on each.
BY_TURNS = (
    *(f"tests/db/{schema}/" for schema in ("pgmq", "pgq", "pgq_coop", "sluice", "legacy")),
    *(
        f"tests/db/test_{name}.py"
        for name in (
            "adopt",
            "install",
            "install_trust",
            "managed_servers",
            "repair",
            "replication",
        )
    ),
    *("tests/client/", "tests/concurrency/", "tests/worker/"),
    *("tests/compat/test_official_client.py", "tests/compat/test_official_listener.py"),
)
# A slow test of Spark in several formats or stores runs in one of them, chosen by its name; the others are long tests.
FORMATS = re.compile("delta|iceberg|disk|object[ -]store")
# Parameters whose values are variants of the same test. `make test` runs one variant of each test.
VARIANTS = {"server", "peer", "installation", "make", "clients", "style", "is_async", "handle", "consuming"}  # fmt: skip
# Of a test with many cases, `make test` runs this many in MANY_CASES, and .ci/run the second number of
# those that are marked slow, but all that compare with PGMQ and PgQ. Elsewhere a case is cheap, or a
# run of its own.
CASES, SLOW_CASES = 1, 3
IN_BOTH = ("tests/db/", "tests/acceptance/", "tests/client/", "tests/dashboard/")
MANY_CASES = (*IN_BOTH, "tests/compat/")
MANY_SLOW_CASES = (*IN_BOTH, "tests/worker/")
SPARK = "tests/spark/"
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 8 << 30

CLUSTERS = pytest.StashKey[Path]()


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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-version",
        action="store_true",
        help="run every test on each version, including those of functions, clients and races",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the versions that are not chosen, and start with Spark."""
    if not config.getoption("--every-version"):
        chosen: list[pytest.Item] = []
        left_out: list[pytest.Item] = []
        for item in items:
            (chosen if _is_its_turn(item) else left_out).append(item)
        config.hook.pytest_deselected(items=left_out)
        items[:] = chosen
        _mark_further_variants(items)
        _mark_further_cases(items)
        _mark_further_formats(items)
    # Spark's tests take longest; if they were last, the other processes would wait for them.
    items.sort(key=lambda item: not item.nodeid.startswith(SPARK))


def _mark_further_variants(items: list[pytest.Item]) -> None:
    """Mark all variants of a test but one as `slow`; each process and run chooses the same."""
    alike: dict[tuple[str, ...], list[pytest.Item]] = defaultdict(list)
    for item in items:
        params = _params(item)
        if VARIANTS & params.keys():
            others = [repr(value) for name, value in sorted(params.items()) if name not in VARIANTS]
            alike[item.nodeid.split("[")[0], *others].append(item)
    for variants in alike.values():
        ours = [item for item in variants if _runs_ours(item)] or variants
        first = ours[zlib.crc32(variants[0].nodeid.encode()) % len(ours)]
        for item in variants:
            if item is not first:
                item.add_marker(pytest.mark.slow)


def _mark_further_cases(items: list[pytest.Item]) -> None:
    """Mark all but CASES cases of a test as `slow`, and of the slow ones all but SLOW_CASES as `long`."""
    fast = [i for i in _in(MANY_CASES, items) if not i.get_closest_marker("slow")]
    _mark_after(CASES, pytest.mark.slow, fast, _name)
    slow = [i for i in _in(MANY_SLOW_CASES, items) if i.get_closest_marker("slow")]
    _mark_after(SLOW_CASES, pytest.mark.long, slow, _name)


def _mark_further_formats(items: list[pytest.Item]) -> None:
    """Mark slow tests of Spark in all FORMATS but one as `long`."""
    slow = [i for i in _in(SPARK, items) if i.get_closest_marker("slow")]
    _mark_after(1, pytest.mark.long, slow, _name_without_format)


def _in(folders: str | tuple[str, ...], items: list[pytest.Item]) -> list[pytest.Item]:
    return [item for item in items if item.nodeid.startswith(folders)]


def _name(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _name_without_format(item: pytest.Item) -> str:
    name, _, params = item.nodeid.partition("[")
    return name + FORMATS.sub("", params)


def _mark_after(
    count: int,
    mark: pytest.MarkDecorator,
    items: list[pytest.Item],
    name: Callable[[pytest.Item], str],
) -> None:
    """Mark items of one name after the first `count`; the order is equal in each process and run."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[name(item)].append(item)
    for alike in cases.values():
        alike.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
        for item in alike[count:]:
            item.add_marker(mark)


class SparkInOneProcess(LoadFileScheduling):
    """Schedule by file, with all Spark files in one process: two JVMs would compete for cores."""

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if nodeid.startswith(SPARK) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SparkInOneProcess | None:
    return SparkInOneProcess(config, log) if config.getoption("dist") == "loadfile" else None


def _params(item: pytest.Item) -> dict[str, object]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _is_its_turn(item: pytest.Item) -> bool:
    version = next((value for value in _params(item).values() if value in VERSIONS), None)
    if version is None or not item.nodeid.startswith(BY_TURNS):
        return True
    # Chosen by the test's name, so that the choice is equal in each process and run.
    there = [v for v in VERSIONS if v != "15" or DEBIAN_15.exists()]
    name = item.nodeid.replace(f"pg{version}", "")
    return version == there[zlib.crc32(name.encode()) % len(there)]


def _runs_ours(item: pytest.Item) -> bool:
    """False for upstream's PGMQ or PgQ, and for a PostgreSQL that is not installed."""
    where = [value for name, value in _params(item).items() if name in VARIANTS]
    names = {name for value in where for name in (value if isinstance(value, tuple) else (value,))}
    return names.isdisjoint({"upstream", "pgq"}) and ("15" not in names or DEBIAN_15.exists())


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


def make_servers_folder() -> Path:
    # Not pytest's own folder: as root the server runs as another user, who could not enter it. In
    # memory if there is room, as a run spends most of its time on the files of the databases.
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES
    folder = Path(tempfile.mkdtemp(prefix="pgsluice-tests-", dir=MEMORY if has_room else None))
    folder.chmod(0o755)
    return folder


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


@pytest.fixture(scope="session")
def servers(servers_folder: Path, clusters: Clusters) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(servers_folder, clusters, stack)
        _dropper.close()
        _creator.close()


@pytest.fixture(scope="session", params=VERSIONS, ids=[f"pg{v}" for v in VERSIONS])
def server(request: pytest.FixtureRequest, servers: Servers) -> EmbeddedServer:
    """Each supported PostgreSQL."""
    return servers.get(request.param)


@pytest.fixture(scope="session")
def server_18(servers: Servers) -> EmbeddedServer:
    """PostgreSQL 18 only, for tests that do not depend on the version."""
    return servers.get("18")


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


_dropper = Dropper()
_creator = Admin()


def _new_database(server: EmbeddedServer, template: str) -> Iterator[Database]:
    name = f"test_{next(NUMBERS)}"
    _creator.run(server, f"create database {name} template {template} strategy file_copy")
    if IS_ODD:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            set_if_odd(connection, name)
    try:
        yield Database(server, name)
    finally:
        _dropper.drop(server, name)


@pytest.fixture
def database(server: EmbeddedServer) -> Iterator[Database]:
    """A database with the schemas installed."""
    yield from _new_database(server, TEMPLATE)


@pytest.fixture
def database_18(server_18: EmbeddedServer) -> Iterator[Database]:
    """A database with the schemas installed, on PostgreSQL 18."""
    yield from _new_database(server_18, TEMPLATE)


@pytest.fixture
def make_database_18(server_18: EmbeddedServer) -> Iterator[Callable[[], Database]]:
    """A function that creates a database with the schemas installed, on PostgreSQL 18."""
    with ExitStack() as stack:
        new_database = contextmanager(_new_database)
        yield lambda: stack.enter_context(new_database(server_18, TEMPLATE))


@pytest.fixture
def empty_database(server: EmbeddedServer) -> Iterator[Database]:
    """A database without the schemas."""
    yield from _new_database(server, "template0")


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
        _dropper.close()
        _creator.close()


@pytest.fixture
def clock(clock_server: ShiftedServer) -> Iterator[Clock]:
    """The clock of `clock_database`, correct before and after the test."""
    clock_server.clock.set(0)
    yield clock_server.clock
    clock_server.clock.set(0)


@pytest.fixture
def clock_database(clock_server: ShiftedServer, clock: Clock) -> Iterator[Database]:
    """A database with the schemas installed, on a server whose wall clock is `clock`."""
    for database in _new_database(clock_server.server, TEMPLATE):
        yield database
        clock.set(0)


@pytest.fixture
def role(server: EmbeddedServer) -> Iterator[str]:
    """A login role without privileges; dropped with its objects in this test's database."""
    name = f"role_{next(NUMBERS)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"create role {name} login")
        yield name
        _dropper.wait()  # its privileges in a database are dropped with it
        connection.execute(f"drop role if exists {name}")
