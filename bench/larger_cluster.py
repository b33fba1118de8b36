"""Compute what a larger cluster would do from costs that were measured on this machine."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

ASSUMPTIONS = (
    "CPU time per event is that of this machine's cores and does not depend on the number of cores or shards",
    "executors, servers and driver have cores of their own, and each has enough shards and tasks to use them",
    "within a micro-batch, executors and servers work concurrently; the slower of the two determines its time",
    "between micro-batches both wait for the driver, as long as in a micro-batch of one event per shard",
    "network, disks, the lake's storage and skew do not limit",
)
# Executor cores, server cores in all, shards, rows per micro-batch.
CLUSTERS = (
    (2, 2, 8, 200_000),
    (8, 8, 8, 1_000_000),
    (32, 16, 8, 2_000_000),
    (64, 64, 32, 5_000_000),
)


@dataclass(frozen=True)
class Costs:
    """Measured costs.

    Attributes:
        executors_us: CPU time of the executors per event in microseconds.
        server_us: CPU time of PostgreSQL per event in microseconds.
        fixed_ms: Time of a micro-batch without rows and without shards in milliseconds.
        shard_ms: Further time per shard in milliseconds.
    """

    executors_us: float
    server_us: float
    fixed_ms: float
    shard_ms: float

    def events_per_s(self, executor_cores: int, server_cores: int, shards: int, rows: int) -> float:
        """Return the computed throughput of a cluster with micro-batches of these rows."""
        event_us = max(self.executors_us / executor_cores, self.server_us / server_cores)
        batch_s = (self.fixed_ms + self.shard_ms * shards) / 1e3 + rows * event_us / 1e6
        return rows / batch_s


def overhead(ms_by_shards: Mapping[int, float]) -> tuple[float, float]:
    """Return the fixed time of a micro-batch and the further time per shard, by least squares, at least 0."""
    if len(ms_by_shards) == 1:
        return next(iter(ms_by_shards.values())), 0.0
    slope, intercept = statistics.linear_regression(list(ms_by_shards), list(ms_by_shards.values()))
    if slope < 0:  # noise: a shard costs less than the variation between two runs
        return statistics.fmean(ms_by_shards.values()), 0.0
    return intercept, slope


def computed(costs: Costs) -> Iterator[dict[str, float]]:
    """Yield the computed throughput of each of `CLUSTERS`."""
    for executor_cores, server_cores, shards, rows in CLUSTERS:
        events_per_s = costs.events_per_s(executor_cores, server_cores, shards, rows)
        yield {
            "executor_cores": executor_cores,
            "server_cores": server_cores,
            "shards": shards,
            "rows_per_micro_batch": rows,
            "events_per_s": round(events_per_s),
            "minutes_for_a_billion_events": round(1e9 / events_per_s / 60, 1),
        }
