"""Start the embedded servers, install the schemas, send and read."""

from __future__ import annotations

import tempfile
from pathlib import Path

import psycopg

from pgsluice import WorkQueue, schema
from pgsluice.embedded import EmbeddedServer

for version in (16, 18):
    with tempfile.TemporaryDirectory(prefix="pgsluice-smoke-") as folder:
        Path(folder).chmod(0o755)  # as root the server runs as another user
        server = EmbeddedServer(Path(folder) / "pg", version=version, options={"fsync": "off"})
        server.start()
        try:
            with psycopg.connect(server.url()) as connection:
                schema.install(connection)
                queue = WorkQueue(connection)
                queue.create("orders")
                queue.send("orders", {"order": 1})
                (message,) = queue.read("orders", vt=30)
                assert message.message == {"order": 1}
                assert connection.info.server_version // 10_000 == version
        finally:
            server.stop("immediate")
