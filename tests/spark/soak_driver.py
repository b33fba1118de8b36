"""The command `pgsluice` with a vacuum that removes files after seconds instead of hours.

python soak_driver.py RETENTION_S FIGURES ARGUMENT …

At SIGUSR1 it writes figures of its memory to the file FIGURES, as JSON.
"""

from __future__ import annotations

import gc
import json
import signal
import sys
import threading
from pathlib import Path

from pgsluice.cli.main import main
from pgsluice.pipelines import tasks

RETENTION_H, FIGURES = float(sys.argv[1]) / 3600, Path(sys.argv[2])


def shorten_retention() -> None:
    from pgsluice.lake import jobs
    from pgsluice.lake.delta import jobs as delta_jobs
    from pgsluice.pipelines.current_state import upkeep

    # Only the lower bound of an hour is lifted. delta-rs counts in whole hours; the age in seconds is checked after it.
    unneeded = delta_jobs._unneeded
    delta_jobs._unneeded = lambda table, _hours: unneeded(table, 0)
    jobs.RETENTION_HOURS_MIN = RETENTION_H
    upkeep.vacuum = lambda folder, **_how: jobs.vacuum(folder, retention_hours=RETENTION_H)


def write_figures() -> None:
    import pyarrow as pa
    from pyspark import SparkContext

    lang = SparkContext._jvm.java.lang
    runtime, in_use = lang.Runtime.getRuntime(), []
    for _ in range(3):  # a micro-batch may allocate at the same time
        lang.System.gc()
        in_use.append(runtime.totalMemory() - runtime.freeMemory())
    gc.collect()
    found = {
        "heap_mb": min(in_use) >> 20,
        "objects": len(gc.get_objects()),
        "arrow_mb": pa.total_allocated_bytes() >> 20,
    }
    new = FIGURES.with_suffix(".new")
    new.write_text(json.dumps(found))
    new.replace(FIGURES)


if __name__ == "__main__":
    tasks._return_memory()  # as the command does, before pyarrow is loaded
    shorten_retention()
    signal.signal(signal.SIGUSR1, lambda *_: threading.Thread(target=write_figures).start())
    main(sys.argv[3:])
