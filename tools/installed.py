"""A PostgreSQL 18 with the schemas installed, for tools that read the catalog."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import psycopg

from pgsluice import schema
from pgsluice.embedded import EmbeddedServer
from pgsluice.schema import installation, repair


@contextmanager
def installed_server() -> Iterator[EmbeddedServer]:
    """Start a server in a temporary folder and install; stop and remove it at the end."""
    with tempfile.TemporaryDirectory(prefix="pgsluice-tools-") as folder:
        Path(folder).chmod(0o755)  # as root the server runs as another user
        server = EmbeddedServer(Path(folder) / "pg", options={"fsync": "off"})
        server.start()
        try:
            with (
                psycopg.connect(server.url()) as connection,
                # From the sources alone: repairs would keep what only the lists have that are to be generated.
                patch.object(repair, "released", tuple),
                patch.object(installation, "grant_missing", lambda _connection: None),
            ):
                schema.install(connection)
            yield server
        finally:
            server.stop("immediate")


def write_or_check(files: dict[Path, str], *, check: bool) -> int:
    """Write the files, or with `check` list outdated ones; return an exit code."""
    stale = [
        path
        for path, text in files.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if check:
        for path in stale:
            print(f"outdated: {path}; run `make generate`")
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path], encoding="utf-8")
    return 0
