"""Permanent errors of pipelines: one line within seconds, without Java, retries or a traceback."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgsluice import WorkQueue
from pgsluice.cli.main import main
from support import wait_until
from support.programs import require
from support.servers import Database

pytest.importorskip("pyspark", reason="needs pgsluice[spark]")

FULL_BYTES = 16 << 10
Arguments = Callable[[Path, Path], list[str]]
Run = Callable[..., str]


def words(text: str) -> Arguments:
    """Return a command line; LAKE stands for a path that is not writable, GOOD for one that is."""
    return lambda lake, good: [
        word.replace("LAKE", str(lake)).replace("GOOD", str(good)) for word in text.split()
    ]


WRITERS: dict[str, Arguments] = {
    "events, lake": words("pipeline run events --log l --lake LAKE --checkpoint GOOD/c --once"),
    "events, checkpoint": words(
        "pipeline run events --log l --lake GOOD/l --checkpoint LAKE --once"
    ),
    "changes, lake": words("pipeline run changes --log l --lake LAKE --checkpoint GOOD/c --once"),
    "changes, checkpoint": words(
        "pipeline run changes --log l --lake GOOD/l --checkpoint LAKE --once"
    ),
    "archive": words("pipeline run archive --queue q --lake LAKE --once"),
    "analytics": words("pipeline run analytics --queue q --gold LAKE --once"),
    "ingest": words("pipeline run ingest GOOD/bad.jsonl --queue q --rejects LAKE --once"),
}
READERS: dict[str, Arguments] = {
    "replay": words("pipeline run replay --lake LAKE --name n --queue q --once"),
    "verify events": words("pipeline verify events --log l --lake LAKE"),
    "verify archive": words("pipeline verify archive --queue q --lake LAKE"),
    "compact": words("lake compact LAKE"),
    "vacuum": words("lake vacuum LAKE --yes"),
    "show": words("lake show LAKE"),
}
SERVERS = {
    name: one
    for name, one in {**WRITERS, **READERS}.items()
    if name not in ("compact", "vacuum", "show", "replay")
}


@pytest.fixture
def good(tmp_path: Path) -> Path:
    folder = tmp_path / "good"
    folder.mkdir()
    (folder / "bad.jsonl").write_text("no JSON\n")
    return folder


@pytest.fixture
def there(database_18: Database) -> Database:
    with database_18.connect() as connection:
        connection.execute("select pgq.create_queue('l')")
        WorkQueue(connection).create("q")
    return database_18


@pytest.fixture
def refused(capfd: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command that must fail at once, and return its line on standard error."""
    # Without Java: the error must be found before Spark is started.
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no java"))
    monkeypatch.chdir(tmp_path)

    def run(arguments: list[str], dsn: str) -> str:
        monkeypatch.setenv("PGSLUICE_DSN", dsn)
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        output = capfd.readouterr().err
        assert ended.value.code == 3, output
        lines = [line for line in output.splitlines() if " INFO " not in line]
        assert len(lines) == 1, output
        assert lines[0].startswith("pgsluice: ")
        assert not any(word in output for word in ("Traceback", "py4j", "Py4J", "\x1b", "Errno"))
        return lines[0]

    return run


@pytest.mark.parametrize("below", ["", "a/b"])
@pytest.mark.parametrize("name", WRITERS)
def test_a_file_in_the_place_of_a_folder_is_named(
    refused: Run, there: Database, good: Path, tmp_path: Path, name: str, below: str
):
    file = tmp_path / "file"
    file.touch()

    output = refused(WRITERS[name](file / below, good), there.url)

    assert str(file) in output


@pytest.mark.parametrize("below", ["", "a/b"])
@pytest.mark.parametrize("name", READERS)
def test_a_reader_names_a_file_in_the_place_of_a_table(
    refused: Run, there: Database, good: Path, tmp_path: Path, name: str, below: str
):
    file = tmp_path / "file"
    file.touch()

    assert str(file) in refused(READERS[name](file / below, good), there.url)


@pytest.fixture
def immutable(tmp_path: Path) -> Iterator[Path]:
    """A folder that is not writable even for root."""
    if not os.getuid():
        require("chattr", purpose="a folder that root cannot write to")
    folder = tmp_path / "immutable"
    folder.mkdir()
    if os.getuid():
        folder.chmod(0o500)
    elif _fails("chattr", "+i", folder):
        pytest.skip("files cannot be made immutable here")
    yield folder
    if os.getuid():
        folder.chmod(0o700)
    else:
        _fails("chattr", "-i", folder)


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk that is full."""
    require("mount", "umount", purpose="a full disk")
    folder = tmp_path / "full"
    folder.mkdir()
    if os.getuid() or _fails("mount", "-t", "tmpfs", "-o", f"size={FULL_BYTES}", "tmpfs", folder):
        pytest.skip("no disk can be mounted here")
    try:
        with pytest.raises(OSError, match="No space left"):
            (folder / "ballast").write_bytes(bytes(2 * FULL_BYTES))
        yield folder
    finally:
        _fails("umount", folder)


def _fails(*command: object) -> bool:
    return subprocess.run([*map(str, command)], capture_output=True).returncode != 0


@pytest.mark.parametrize("below", ["", "a"])
@pytest.mark.parametrize("name", WRITERS)
def test_a_folder_that_cannot_be_written_is_named(
    refused: Run, there: Database, good: Path, immutable: Path, name: str, below: str
):
    assert str(immutable) in refused(WRITERS[name](immutable / below, good), there.url)


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_named(refused: Run, there: Database, good: Path, full: Path, name: str):
    output = refused(WRITERS[name](full / "a", good), there.url)

    assert str(full) in output
    assert "No space left" in output


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_that_is_down_is_named_at_once(refused: Run, good: Path, name: str):
    output = refused(SERVERS[name](good / "lake", good), "postgresql://me@127.0.0.1:1/none")

    assert "cannot connect to" in output or "there is no lake table" in output


@pytest.mark.parametrize("name", WRITERS)
def test_a_missing_schema_log_or_queue_is_named(
    refused: Run, database_18: Database, good: Path, name: str
):
    output = refused(WRITERS[name](good / "lake", good), database_18.url)

    assert "does not exist" in output or "is not installed" in output, output


@pytest.mark.parametrize("name", WRITERS)
def test_a_database_without_our_schemas_is_named(
    refused: Run, empty_database: Database, good: Path, name: str
):
    output = refused(WRITERS[name](good / "lake", good), empty_database.url)

    assert "pgsluice schema install" in output, output


@pytest.mark.parametrize("name", WRITERS)
def test_a_database_that_is_not_there_is_named(
    refused: Run, database_18: Database, good: Path, name: str
):
    output = refused(
        WRITERS[name](good / "lake", good), make_conninfo(database_18.url, dbname="nowhere")
    )

    assert 'database "nowhere" does not exist' in output


@pytest.fixture
def guarded(there: Database) -> Iterator[str]:
    """A URL of a role that needs a password."""
    with there.connect() as connection:
        connection.execute("create role guarded login password 'right'")
        file = Path(connection.execute("show hba_file").fetchone()[0])
        before = file.read_text()
        file.write_text(
            f"local all guarded scram-sha-256\nhost all guarded all scram-sha-256\n{before}"
        )
        connection.execute("select pg_reload_conf()")
        yield make_conninfo(there.url, user="guarded", password="sesame")
        file.write_text(before)
        connection.execute("select pg_reload_conf()")
        connection.execute("drop role guarded")


@pytest.mark.parametrize("name", WRITERS)
def test_a_wrong_password_is_named_and_not_shown(refused: Run, guarded: str, good: Path, name: str):
    wait_until(lambda: _is_refused(guarded), "the server to ask for the password")

    output = refused(WRITERS[name](good / "lake", good), guarded)

    assert "password authentication failed" in output
    assert "sesame" not in output


def _is_refused(url: str) -> bool:
    with contextlib.suppress(psycopg.OperationalError), psycopg.connect(url):
        return False
    return True
