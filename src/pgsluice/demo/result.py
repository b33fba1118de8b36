"""The outcome of a run: counts, measurements and checks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgsluice.demo.measure import Latency
from pgsluice.demo.reconcile import Reconciliation


@dataclass(frozen=True, slots=True)
class Series:
    """Time series in equal steps from the first transaction on.

    Attributes:
        step_s: Length of a step, seconds.
        committed_per_s: Transactions per second, one per step.
        processed_per_s: Messages processed per second, one per step.
        lake_per_s: Changes committed to the lake per second, one per step.
        queued: Messages sent and not yet processed, at each edge of a step.
        not_in_lake: Changes made and not yet in the lake, at each edge of a step.
    """

    step_s: float
    committed_per_s: Sequence[float]
    processed_per_s: Sequence[float]
    lake_per_s: Sequence[float]
    queued: Sequence[int]
    not_in_lake: Sequence[int]


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a run.

    Attributes:
        run_id: Run id.
        server: Description of the server.
        seconds: Requested duration of the load.
        clients: Sessions of the load.
        workers: Concurrent handlers of the queue.
        interruptions: Number of restarts after a crash.
        counts: Rows by name.
        rates_per_s: Rates by name.
        latencies: Transaction; sent → processed; changed → in the lake.
        series: Time series for the plots.
        steps_s: Duration of each step of this start, by name, in order.
        checks: The reconciliation.
        report: The HTML report.
    """

    run_id: str
    server: str
    seconds: int
    clients: int
    workers: int
    interruptions: int
    counts: Mapping[str, int]
    rates_per_s: Mapping[str, float]
    latencies: Sequence[Latency]
    series: Series
    steps_s: Mapping[str, float]
    checks: Sequence[Reconciliation]
    report: Path

    @property
    def reconciled(self) -> bool:
        """True if every check holds."""
        return all(check.holds for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON values: latencies in seconds, null without measurements."""
        return {
            "reconciled": self.reconciled,
            "run_id": self.run_id,
            "server": self.server,
            "seconds": self.seconds,
            "clients": self.clients,
            "workers": self.workers,
            "interruptions": self.interruptions,
            "counts": dict(self.counts),
            "rates_per_s": {name: _number(rate) for name, rate in self.rates_per_s.items()},
            "latencies_s": {
                latency.name: {
                    "count": latency.count,
                    "p50": _number(latency.p50_s),
                    "p95": _number(latency.p95_s),
                    "p99": _number(latency.p99_s),
                    "max": _number(latency.max_s),
                }
                for latency in self.latencies
            },
            "steps_s": {name: _number(seconds) for name, seconds in self.steps_s.items()},
            "checks": [
                {
                    "name": check.name,
                    "statement": check.statement,
                    "holds": check.holds,
                    "expected": check.expected,
                    "found": check.found,
                    "differing": check.differing,
                    "sample": list(check.sample),
                }
                for check in self.checks
            ],
            "report": str(self.report),
        }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)
