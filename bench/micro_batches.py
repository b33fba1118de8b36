"""Time micro-batches of one event per shard: `python -m bench.micro_batches JSON`, printed as JSON.

A program of its own, as a process has one Spark session, and this one needs that of a cluster.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from contextlib import ExitStack
from typing import Any

import psycopg

WARM_UPS = 5
DEADLINE_S = 300.0
PARTS = ("triggerExecution", "latestOffset", "queryPlanning", "addBatch", "walCommit", "commitOffsets")  # fmt: skip


def measure(
    *, master: str, conf: dict[str, str], log: str, lake: str, shards: dict[str, str], batches: int
) -> dict[str, float]:
    """Return the medians of the parts of a micro-batch in milliseconds, by Spark's names."""
    from pgsluice.pipelines.events import events
    from pgsluice.pipelines.options import StreamOptions
    from pgsluice.spark.session import QUICK, spark_session

    session = spark_session("pgsluice bench", master=master, conf={**QUICK, **conf})
    with ExitStack() as stack:
        sessions = [
            stack.enter_context(psycopg.connect(dsn, autocommit=True)) for dsn in shards.values()
        ]
        stream = stack.enter_context(
            events(
                log,
                lake,
                f"{lake}.checkpoint",
                shards=shards,
                reading=StreamOptions(trigger_s=0),
                spark=session,
            )
        )
        rows = 0
        for _ in range(WARM_UPS + batches):
            for each in sessions:
                each.execute("select pgq.insert_event(%s, 'e', '1')", [log])
            rows += len(sessions)
            wait_for(stream, rows)
        reports = [report for report in stream.query.recentProgress if report["numInputRows"]]
    kept: list[Any] = reports[WARM_UPS:]
    session.stop()
    return {
        part: statistics.median(report["durationMs"].get(part, 0) for report in kept)
        for part in PARTS
    }


def wait_for(stream: Any, rows: int) -> None:
    """Wait until the stream has written these rows."""
    end = time.monotonic() + DEADLINE_S
    while stream.progress().rows < rows:
        if stream.has_ended() or time.monotonic() > end:
            raise RuntimeError(f"{stream.progress().rows} rows instead of {rows} were written")
        time.sleep(0.01)


if __name__ == "__main__":
    print("result", json.dumps(measure(**json.loads(sys.argv[1]))), flush=True)
