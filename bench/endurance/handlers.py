"""App of the worker of a long run: `pgsluice worker run bench.endurance.handlers:app`.

The environment names the folder of the run, the part, and the number before the first message of the slice.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from bench.endurance.numbers import Counter, Numbers
from bench.endurance.parts import GROUP, NAME, PARTS, number_of
from pgsluice.worker import App, Batch

WRITE_S = 0.05
LEASE_S = 10  # after a kill, the next slice waits for the leases of the last one

_part = PARTS[os.environ["ENDURANCE_PART"]]
_before = int(os.environ["ENDURANCE_BEFORE"])
_numbers = Numbers(_before + 1)
_counter = Counter(Path(os.environ["ENDURANCE_FOLDER"]) / "worker")
_route: dict[str, Any] = (
    {"log": NAME, "group": GROUP, "event_types": ["event"]}
    if _part.is_log
    else {"queue": NAME, "keep": _part.keep}
)

app = App(name="endurance", tracing=False)


@app.handler(**_route, batch=Batch(500, wait_s=0.05), concurrency=2_000, lease_s=LEASE_S)
async def count(payloads: list[str]) -> None:
    """Count the messages, and do nothing else."""
    _numbers.add(map(number_of, payloads))


def _write() -> None:
    while True:
        _counter.write(_before + _numbers.handled, _numbers.redelivered)
        time.sleep(WRITE_S)


threading.Thread(target=_write, daemon=True).start()
