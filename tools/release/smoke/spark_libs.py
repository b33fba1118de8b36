"""Beside a Spark of the platform: Arrow and the lake work, and without one the error names the extra."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
from adbc_driver_postgresql import dbapi
from deltalake import write_deltalake

from pgsluice.lake.delta.opening import open_dataset

with dbapi.connect(os.environ["PGSLUICE_DSN"]) as connection, connection.cursor() as cursor:
    cursor.execute("select 1 as n")
    assert cursor.fetch_arrow_table().to_pylist() == [{"n": 1}]
with tempfile.TemporaryDirectory() as folder:
    write_deltalake(folder, pa.table({"n": [1, 2]}))
    assert open_dataset(Path(folder)).to_table().num_rows == 2

PGSLUICE = [sys.executable, "-I", "-m", "pgsluice"]
subprocess.run([*PGSLUICE, "pipeline", "run", "--help"], stdout=subprocess.DEVNULL, check=True)
if importlib.util.find_spec("pyspark") is None:
    words = ["pipeline", "run", "events", "--log", "changes", "--lake", "a", "--checkpoint", "b"]
    done = subprocess.run([*PGSLUICE, *words], capture_output=True, text=True, check=False)
    assert "pip install 'pgsluice[spark]'" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
else:
    import pgsluice.spark

    assert pgsluice.spark.__doc__
