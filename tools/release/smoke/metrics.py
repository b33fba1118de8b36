"""Print the metrics of a database."""

from __future__ import annotations

import subprocess
import sys

from pgsluice import WorkQueue, connect, schema

with connect() as connection:
    schema.install(connection)
    WorkQueue(connection).create("orders")

printed = subprocess.run(
    [sys.executable, "-I", "-m", "pgsluice", "metrics"], capture_output=True, text=True, check=True
).stdout
assert "\npgsluice_up 1.0\n" in printed, printed
assert 'pgsluice_queue_ready_messages{queue="orders"} 0.0' in printed, printed
