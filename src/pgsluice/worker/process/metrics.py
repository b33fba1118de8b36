"""Metrics of worker processes, from the status that their health endpoint reports."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from pgsluice.worker.engine.run.call_times import BOUNDS_S

# Error types per handler; the rest is counted as "other".
_ERROR_TYPES_MAX = 20
_OUTCOMES = ("done", "retry", "released", "dead", "lost")
_PROCESS = ("process",)
_HANDLER = ("process", "handler")
# Name, labels, help.
_GAUGES = (
    ("live", (), "1 if the process does not hang, else 0."),
    (
        "ready",
        (),
        "1 if every process runs and reaches all its sources, else 0; with shards, all of one of them.",
    ),
    ("running", _PROCESS, "1 if a worker process is running, else 0."),
    ("leader", _PROCESS, "1 if the process leads maintenance, else 0."),
    (
        "listener_listening",
        _PROCESS,
        "1 if the listener of the process receives notifications, else 0.",
    ),
    ("hung_threads", _PROCESS, "Threads still running after the timeout of their handler."),
    (
        "source_reachable",
        ("process", "source"),
        "1 if the last call of a source succeeded, else 0.",
    ),
    (
        "shard_up",
        ("process", "shard"),
        "1 if the worker of a shard runs and reaches all its sources, else 0; only with shards.",
    ),
    ("running_messages", _HANDLER, "Running calls of a handler."),
    ("waiting_messages", _HANDLER, "Messages claimed and not started."),
)
_COUNTERS = (
    (
        "messages",
        (*_HANDLER, "outcome"),
        "Messages settled since the start of the process, by outcome.",
    ),
    (
        "errors",
        (*_HANDLER, "error_type"),
        "Failed attempts since the start of the process, by error type.",
    ),
)
_CALLS = (
    "pgsluice_worker_call_duration_seconds",
    "Duration of the calls of a handler since the start of the process; a batch is one call.",
)
_BOUNDS = [*map(str, BOUNDS_S), "+Inf"]


class StatusCollector(Collector):
    """Metrics of one report of `Health`."""

    def __init__(self, report: dict[str, Any]) -> None:
        """Use a report; nothing is read later."""
        self._report = report

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        families: dict[str, Any] = {
            name: GaugeMetricFamily(f"pgsluice_worker_{name}", text, labels=labels)
            for name, labels, text in _GAUGES
        } | {
            name: CounterMetricFamily(f"pgsluice_worker_{name}", text, labels=labels)
            for name, labels, text in _COUNTERS
        }
        families["calls"] = HistogramMetricFamily(*_CALLS, labels=_HANDLER)
        families["live"].add_metric((), self._report["live"])
        families["ready"].add_metric((), self._report["ready"])
        for process, status in self._report["processes"].items():
            families["running"].add_metric((process,), status.get("state") == "running")
            if "handlers" in status:
                _add_process(families, process, status)
        return families.values()


def _add_process(families: dict[str, Any], process: str, status: dict[str, Any]) -> None:
    """Add the metrics of a process that has started."""
    families["leader"].add_metric((process,), status.get("maintenance") == "leader")
    if status["listener"] is not None:
        families["listener_listening"].add_metric((process,), status["listener"] == "listening")
    families["hung_threads"].add_metric((process,), status["hung_threads"])
    for source in status["sources"]:
        families["source_reachable"].add_metric((process, source["name"]), source["is_reachable"])
    for shard in status["shards"]:
        families["shard_up"].add_metric((process, shard["name"]), shard["is_up"])
    for handler in status["handlers"]:
        labels = (process, handler["name"])
        families["running_messages"].add_metric(labels, handler["running"])
        families["waiting_messages"].add_metric(labels, handler["waiting"])
        for outcome in _OUTCOMES:
            families["messages"].add_metric((*labels, outcome), handler["counts"][outcome])
        for error_type, count in _limited(handler["counts"]["by_error_type"]):
            families["errors"].add_metric((*labels, error_type), count)
        upto = list(itertools.accumulate(handler["call_counts"] or [0] * len(_BOUNDS)))
        buckets = list(zip(_BOUNDS, upto, strict=True))
        families["calls"].add_metric(labels, buckets, handler["call_sum_s"])


def _limited(counts: dict[str, int]) -> Iterable[tuple[str, int]]:
    """Return the counts of the first error types, and the sum of the others."""
    # In the order of their first occurrence, so that no type moves from its series to the sum.
    first = list(counts.items())[:_ERROR_TYPES_MAX]
    rest = sum(counts.values()) - sum(count for _, count in first)
    return [*first, *([("other", rest)] if rest else [])]


def metrics_of(report: dict[str, Any], accept: str | None) -> tuple[bytes, str]:
    """Return the metrics of a report in the format that a client accepts, and their content type."""
    registry = CollectorRegistry()
    registry.register(StatusCollector(report))
    encode, content_type = choose_encoder(accept or "")
    return encode(registry), content_type
