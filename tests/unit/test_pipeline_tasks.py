"""Tasks of configured pipelines."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import re, sys, threading, time
from pathlib import Path
from pgsluice.pipelines.config import Pipeline
from pgsluice.pipelines.tasks import tasks_of

def memory_mb():
    return int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024

tasks_of([Pipeline("events", "events", {})], once=False)
import pyarrow as pa
before, freed = memory_mb(), threading.Event()

def work():
    arrays = [pa.nulls(20_000, pa.int64()).fill_null(number) for number in range(1_000)]
    print(memory_mb() - before)
    del arrays
    freed.set()
    threading.Event().wait()  # like a thread that compacts once an hour

threading.Thread(target=work, daemon=True).start()
freed.wait()
end_s = time.monotonic() + 20
while memory_mb() - before > 40 and time.monotonic() < end_s:
    time.sleep(0.1)
print(memory_mb() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_that_a_pipeline_has_freed_returns_to_the_system():
    program = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(program, check=True, timeout=60, capture_output=True, text=True)

    used, left = map(int, done.stdout.split())
    assert used > 100
    assert left <= 40
