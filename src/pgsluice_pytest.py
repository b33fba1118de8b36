"""The fixture `pgsluice_database`, for tests of those who use pgsluice: a database of its own for each test.

A module beside the package, so that pytest, which imports it in every run, imports nothing of the package before a test
asks for a database.
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
# Nothing outlives the run: durability would only cost time.
_OPTIONS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
# The end of its input is that of the tests, also when they are killed.
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
    """A database with the schemas installed, and nothing in it.

    Attributes:
        dsn: Where it is, as everything of pgsluice takes it.
    """

    dsn: str

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """Open a connection, in autocommit mode unless something else is asked for; the caller closes it."""
        import psycopg

        return psycopg.connect(self.dsn, **{"autocommit": True, **options})


@pytest.fixture(scope="session")
def _pgsluice_make() -> Iterator[Callable[[], tuple[str, Callable[[], None]]]]:
    import psycopg

    from pgsluice import Settings, schema
    from pgsluice.client.calls import databases
    from pgsluice.embedded import EmbeddedServer

    # Not pytest's own folder: as root the server runs as another user, who could not enter it.
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
    """A database of the test's own with the schemas installed, on the embedded server, which starts with the first.

    While the test runs `PGSLUICE_DSN` names it: an `App()` that was not told another place uses it.
    """
    dsn, drop = _pgsluice_make()
    monkeypatch.setenv("PGSLUICE_DSN", dsn)
    yield PgsluiceDatabase(dsn)
    drop()
