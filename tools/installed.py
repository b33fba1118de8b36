"""A PostgreSQL 18 with the schemas installed, for tools that read the catalog."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from pgsluice import schema
from pgsluice.embedded import EmbeddedServer


@contextmanager
def installed_server() -> Iterator[EmbeddedServer]:
    """Start a server in a temporary folder and install; stop and remove it at the end."""
    with tempfile.TemporaryDirectory(prefix="pgsluice-tools-") as folder:
        Path(folder).chmod(0o755)  # as root the server runs as another user
        server = EmbeddedServer(Path(folder) / "pg", options={"fsync": "off"})
        server.start()
        try:
            with psycopg.connect(server.url()) as connection:
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
