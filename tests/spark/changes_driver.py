"""A program that maintains current-state tables of pgbench's tables, and can be held at a point.

    python changes_driver.py LAKE CHECKPOINT MOMENT FOLDER OFFSETS

With MOMENT `after N` the driver applies changes to N tables, creates the file FOLDER/held and
sleeps forever, so that it can be killed there. With `never` it runs until it is killed. OFFSETS is
unused.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from pgsluice.pipelines.changes import changes
from pgsluice.pipelines.current_state import apply
from pgsluice.pipelines.options import CurrentStateOptions, StreamOptions
from pgsluice.spark.session import spark_session

LAKE, CHECKPOINT, MOMENT, FOLDER, _ = sys.argv[1:]
TABLES = [f"pgbench_{name}" for name in ("accounts", "branches", "history", "tellers")]


def main() -> None:
    merge, applied = apply.merge, 0

    def held_merge(*arguments: Any, **options: Any) -> bool:
        nonlocal applied
        done = merge(*arguments, **options)
        applied += 1
        if f"after {applied}" == MOMENT:
            Path(FOLDER, "held").touch()
            threading.Event().wait()
        return done

    apply.merge = held_merge  # type: ignore[assignment]
    # See FAST_JVM in conftest.py.
    conf = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    stream = changes(
        "log",
        LAKE,
        CHECKPOINT,
        spark=spark_session("pgsluice driver", conf=conf),
        reading=StreamOptions(trigger_s=0.1, max_rows_per_trigger=20_000),
        state=CurrentStateOptions(snapshots=TABLES),
    )
    stream.await_ready()
    Path(FOLDER, "ready").touch()
    stream.drain()


if __name__ == "__main__":
    main()
