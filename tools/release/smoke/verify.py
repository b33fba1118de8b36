"""Verify without Spark: the packages that read the lake are there, and an absent table is an error."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

import pgsluice.verify
from pgsluice import EventLog, connect, schema
from pgsluice.lake.delta.opening import open_dataset

assert pgsluice.verify.__doc__
assert "pyspark" not in sys.modules

with connect() as connection:
    schema.install(connection)
    log = EventLog(connection)
    log.create("changes")
    log.insert_event("changes", "word", "hello")

with tempfile.TemporaryDirectory() as folder:
    words = ["pipeline", "verify", "events", "--log", "changes", "--lake", f"{folder}/none"]
    done = subprocess.run(
        [sys.executable, "-I", "-m", "pgsluice", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0, done
    assert "pip install" not in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr

    write_deltalake(f"{folder}/table", pa.table({"n": [1, 2]}))
    assert open_dataset(Path(folder, "table")).to_table().num_rows == 2
