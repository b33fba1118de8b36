"""Databases of tests: copies of a template, on an embedded server that starts from a cached copy of its data."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from platformdirs import user_cache_path

import pgsluice
from pgsluice import schema
from pgsluice.client.calls import databases
from pgsluice.embedded import EmbeddedServer
from pgsluice.sessions import SluiceConnection

_TEMPLATE = "pgsluice_template"
# The data need not survive the run, so durability would only cost time.
_OPTIONS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
}
_UNUSED_MAX_S = 30 * 24 * 3600
# Its standard input closes when the test process ends, even if killed.
_WATCH = """
import sys
sys.stdin.read()
import shutil
from pathlib import Path
from pgsluice.embedded import EmbeddedServer
from pgsluice.sessions import SluiceConnection
folder = Path(sys.argv[1])
if folder.exists():
    EmbeddedServer(folder / "data", version=int(sys.argv[2])).stop("immediate")
    shutil.rmtree(folder, ignore_errors=True)
"""


class Databases:
    """A server for a test run, with databases that have the schemas installed.

    The server's data are copied from the user's cache folder, where the first run of a version of pgsluice leaves them.
    The next database is created while a test runs.
    """

    def __init__(self, version: int) -> None:
        """Start the server.

        Args:
            version: Major version of PostgreSQL.

        Raises:
            EmbeddedServerError: It cannot be started.
        """
        # Not pytest's own folder: as root the server runs as another user, who cannot enter it.
        self._folder = Path(tempfile.mkdtemp(prefix="pgsluice-pytest-"))
        self._folder.chmod(0o755)
        self._numbers = itertools.count(1)
        self._thread = ThreadPoolExecutor(1)
        self._next: Future[str] | None = None
        self._server = EmbeddedServer(self._folder / "data", version=version, options=_OPTIONS)
        self._watch = subprocess.Popen(
            [sys.executable, "-c", _WATCH, self._folder, str(version)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def make(self) -> str:
        """Return the name of a new database."""
        name = self._create() if self._next is None else self._next.result()
        self._next = self._thread.submit(self._create)
        return name

    def url(self, name: str) -> str:
        """Return the connection string of a database."""
        return self._server.url(name)

    def drop(self, name: str) -> None:
        """Drop a database in the background."""
        self._thread.submit(self._drop, name)

    def close(self) -> None:
        """Stop the server and remove its data."""
        self._thread.shutdown(cancel_futures=True)
        self._server.stop("immediate")
        shutil.rmtree(self._folder, ignore_errors=True)
        self._watch.kill()
        self._watch.communicate()

    def _start(self) -> None:
        cached = _cache_folder() / _key(self._server)
        if cached.exists():
            with contextlib.suppress(OSError):
                os.utime(cached)
            _copy(cached, self._server.data)
            self._server.start()
            return
        self._server.start()
        with self._connect() as connection:
            connection.execute(databases.create(_TEMPLATE))
        with SluiceConnection.connect(self._server.url(_TEMPLATE)) as connection:
            schema.install(connection)
        self._server.stop()
        with contextlib.suppress(OSError, subprocess.CalledProcessError):  # no cache then
            _store(self._server.data, cached)
        self._server.start()

    def _create(self) -> str:
        name = f"test_{next(self._numbers)}"
        with self._connect() as connection:
            connection.execute(databases.create(name, _TEMPLATE))
        return name

    def _drop(self, name: str) -> None:
        with self._connect() as connection:
            connection.execute(databases.drop(name))

    def _connect(self) -> SluiceConnection:
        return SluiceConnection.connect(self._server.url(), autocommit=True)


def _cache_folder() -> Path:
    return user_cache_path("pgsluice") / "pytest"


def _key(server: EmbeddedServer) -> str:
    """Return a name that changes with the programs of the server and with each file that installs the schemas."""
    root = Path(pgsluice.__file__).parent
    digest = hashlib.sha256(
        f"{server.bin_dir} {(server.bin_dir / 'postgres').stat().st_mtime_ns}".encode()
    )
    for file in sorted([*(root / "sql").rglob("*.*"), *(root / "schema").glob("*.py")]):
        digest.update(f"\0{file.relative_to(root)}\0".encode())
        digest.update(file.read_bytes())
    return f"{server.version}-{digest.hexdigest()[:16]}"


def _store(data: Path, cached: Path) -> None:
    """Copy the data of a stopped server into the cache; another process may do the same."""
    cached.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    building = Path(tempfile.mkdtemp(prefix="building-", dir=cached.parent))
    try:
        _copy(data, building / "data")
        with contextlib.suppress(FileExistsError, OSError):  # it exists
            (building / "data").rename(cached)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    for other in cached.parent.iterdir():
        if time.time() - other.stat().st_mtime > _UNUSED_MAX_S:
            shutil.rmtree(other, ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    # Keeps the owner: root's server runs as another user.
    subprocess.run(["cp", "-Rp", source, target], check=True)
