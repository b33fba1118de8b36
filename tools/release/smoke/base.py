"""Clients, installer and command line, without an extra."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

from pgsluice import EventLog, WorkQueue, connect, schema
from pgsluice.worker import App

with connect() as connection:
    schema.install(connection)
    queue = WorkQueue(connection)
    queue.create("orders")
    queue.send("orders", {"order": 1})
    (message,) = queue.read("orders", vt=30)
    assert message.message == {"order": 1}
    assert queue.archive("orders", message.msg_id)
    EventLog(connection).create("changes")

app = App(name="shop")
assert app.handler("orders")
for words in (["status"], ["schema", "verify"], ["worker", "run", "--help"]):
    subprocess.run(
        [sys.executable, "-I", "-m", "pgsluice", *words], stdout=subprocess.DEVNULL, check=True
    )
if importlib.util.find_spec("prometheus_client") is None:  # not in an environment with extras
    # A command of an extra names the extra, with exit code 3 and no traceback.
    refused = subprocess.run(
        [sys.executable, "-I", "-m", "pgsluice", "metrics"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert refused.returncode == 3, refused
    assert "pip install 'pgsluice[metrics]'" in refused.stderr, refused.stderr
    assert "Traceback" not in refused.stderr, refused.stderr
