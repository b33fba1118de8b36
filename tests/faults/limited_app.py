"""App with one queue for each kind of limit, for workers that are killed."""

from __future__ import annotations

import time

from faults.app import Work, note
from pgsluice.worker import App, SyncContext

LEASE_S = 2.0
FLEET = 2
RATE = 5
RATE_S = 1.0

app = App(name="limited")


def work_for_a_while(work: Work, context: SyncContext) -> None:
    """Record the start and the end of a handler that takes a while."""
    note("start", work, context)
    time.sleep(work.get("seconds", 0))
    note("done", work, context)


for name, limits in {
    "fleet": {"fleet_concurrency": FLEET},
    "keyed": {"key_concurrency": 1},
    "rated": {"rate": RATE, "rate_s": RATE_S},
}.items():
    app.handler(name, name=name, lease_s=LEASE_S, concurrency=4, **limits)(work_for_a_while)
