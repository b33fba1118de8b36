"""A server for one test, with the schemas installed, which the test may crash."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from pgsluice import schema
from pgsluice.embedded import EmbeddedServer


@contextmanager
def server_to_crash(servers_folder: Path) -> Iterator[EmbeddedServer]:
    """Start the server; stop it with `immediate` at the end.

    It runs without fsync, as a crash of the server alone loses nothing in the operating system's
    cache.
    """
    folder = Path(tempfile.mkdtemp(dir=servers_folder))
    folder.chmod(0o755)
    server = EmbeddedServer(folder / "crashing", options={"fsync": "off"})
    server.start()
    with psycopg.connect(server.url()) as connection:
        schema.install(connection)
    yield server
    server.stop("immediate")
