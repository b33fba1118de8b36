"""A server of a test's own, with the schemas installed, that the test may crash."""

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
    """Start it, and stop it with `immediate` at the end.

    It runs without fsync: a crash of the server alone loses nothing that the operating system has.
    """
    folder = Path(tempfile.mkdtemp(dir=servers_folder))
    folder.chmod(0o755)
    server = EmbeddedServer(folder / "crashing", options={"fsync": "off"})
    server.start()
    with psycopg.connect(server.url()) as connection:
        schema.install(connection)
    yield server
    server.stop("immediate")
