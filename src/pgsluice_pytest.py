"""The pytest fixture `pgsluice_database`: a database per test, for projects that use pgsluice.

A module outside the package: pytest imports it in every run, and must not import the package before a test uses the
fixture.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import psycopg

_TEMPLATE = "pgsluice_template"
# The data need not survive the run, so durability would only cost time.
_OPTIONS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
# Its standard input closes when the test process ends, even if killed.
_WATCH = """
import sys
sys.stdin.read()
import shutil
from pathlib import Path
from pgsluice.embedded import EmbeddedServer
folder = Path(sys.argv[1])
if folder.exists():
    EmbeddedServer(folder / "data", version=int(sys.argv[2])).stop("immediate")
    shutil.rmtree(folder, ignore_errors=True)
"""


@dataclass(frozen=True, slots=True)
class PgsluiceDatabase:
    """An empty database with the schemas installed.

    Attributes:
        dsn: Connection string, as accepted by all of pgsluice.
    """

    dsn: str

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """Open a connection, by default in autocommit mode; the caller closes it."""
        import psycopg

        return psycopg.connect(self.dsn, **{"autocommit": True, **options})


@pytest.fixture(scope="session")
def _pgsluice_make() -> Iterator[Callable[[], tuple[str, Callable[[], None]]]]:
    import psycopg

    from pgsluice import Settings, schema
    from pgsluice.client.calls import databases
    from pgsluice.embedded import EmbeddedServer

    # Not pytest's own folder: as root the server runs as another user, who cannot enter it.
    folder = Path(tempfile.mkdtemp(prefix="pgsluice-pytest-"))
    folder.chmod(0o755)
    version = Settings.load().embedded_version
    server = EmbeddedServer(folder / "data", version=version, options=_OPTIONS)
    watch = subprocess.Popen(
        [sys.executable, "-c", _WATCH, folder, str(version)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    numbers = itertools.count(1)

    def make() -> tuple[str, Callable[[], None]]:
        name = f"test_{next(numbers)}"
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(databases.create(name, _TEMPLATE))

        def drop() -> None:
            with psycopg.connect(server.url(), autocommit=True) as connection:
                connection.execute(databases.drop(name))

        return server.url(name), drop

    try:
        server.start()
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(databases.create(_TEMPLATE))
        with psycopg.connect(server.url(_TEMPLATE)) as connection:
            schema.install(connection)
        yield make
    finally:
        server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)
        watch.kill()
        watch.communicate()


@pytest.fixture
def pgsluice_database(
    _pgsluice_make: Callable[[], tuple[str, Callable[[], None]]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[PgsluiceDatabase]:
    """Yield a database of the test's own with the schemas installed, on an embedded server started by the first test.

    During the test `PGSLUICE_DSN` names it, so an `App()` without another DSN uses it.
    """
    dsn, drop = _pgsluice_make()
    monkeypatch.setenv("PGSLUICE_DSN", dsn)
    yield PgsluiceDatabase(dsn)
    drop()
