"""Serve the dashboard by its command, and request pages and files."""

from __future__ import annotations

import subprocess
import sys
from urllib.request import urlopen

from pgsluice import WorkQueue, connect, schema
from pgsluice.dashboard import app

with connect() as connection:
    schema.install(connection)
    WorkQueue(connection).create("orders")

app().state.dashboard.database.close()  # to mount in another program
command = [sys.executable, "-I", "-m", "pgsluice", "dashboard", "--port", "0"]
with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
    assert process.stderr is not None
    try:
        address = process.stderr.readline().split()[-1].rstrip("/")
        for path, expected in (("/queues", "orders"), ("/static/dashboard.js", "")):
            with urlopen(f"{address}{path}", timeout=30) as response:
                assert response.status == 200, path
                assert expected in response.read().decode(), path
    finally:
        process.terminate()
