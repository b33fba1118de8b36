"""Collector of the state of a database, for a registry of prometheus_client."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from pgsluice.client import EventLog, Operations, WorkQueue
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import listeners, samples
from pgsluice.connection import Target, connect
from pgsluice.errors import SluiceError, translate
from pgsluice.ops.metrics.catalog import METRICS

_log = logging.getLogger(__name__)

_THREADS_MAX = 16


class _Families:
    """Samples of one reading of the database, by metric."""

    def __init__(self) -> None:
        self._families: dict[str, Any] = {}

    def add(self, name: str, value: float, *labels: str) -> None:
        """Add a sample to the metric `name` of the catalog."""
        family = self._families.get(name)
        if family is None:
            known = next(metric for metric in METRICS if metric.name == name)
            kind = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}[known.kind]
            family = self._families[name] = kind(name, known.help, labels=known.labels)
        family.add_metric(labels, value)

    def add_info(self, name: str, **labels: str) -> None:
        """Add a sample to an info metric of the catalog."""
        family = self._families.get(name)
        if family is None:
            known = next(metric for metric in METRICS if metric.name == name)
            family = self._families[name] = InfoMetricFamily(name, known.help)
        family.add_metric((), labels)

    def merge(self, other: _Families) -> None:
        """Add the metrics of another reading."""
        for name, family in other._families.items():
            mine = self._families.setdefault(name, family)
            if mine is not family:
                mine.samples.extend(family.samples)

    def all(self) -> list[Metric]:
        """Return the metrics."""
        return list(self._families.values())


class DatabaseCollector(Collector):
    """State of a database, read at most once per `cache_s`, however often it is scraped. Thread-safe.

    The role needs `sluice_monitor` only. Each part is read in a transaction with a statement_timeout; a part that fails
    is left out and shown by `pgsluice_read_errors`.
    """

    def __init__(
        self,
        target: Target,
        *,
        cache_s: float = 10.0,
        timeout_s: float = 5.0,
        series_max: int = 200,
    ) -> None:
        """Prepare a collector; nothing is read yet.

        Args:
            target: The database.
            cache_s: Minimum time between two readings in seconds.
            timeout_s: Timeout of each statement in seconds.
            series_max: Maximum number of queues, of consumers, of share groups, of schedules and of pipelines.
        """
        self._target = target
        self._cache_s = cache_s
        self._timeout_s = timeout_s
        self._series_max = series_max
        self._lock = threading.Lock()
        self._read_at_s = 0.0
        self._metrics: list[Metric] = []
        self._is_up: bool | None = None

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registration must not read the database."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Return the metrics, read now or within the last `cache_s`."""
        with self._lock:
            if not self._metrics or time.monotonic() - self._read_at_s >= self._cache_s:
                self._metrics = self._read()
                self._read_at_s = time.monotonic()
            return self._metrics

    def _read(self) -> list[Metric]:
        began_s = time.monotonic()
        families = _Families()
        try:
            with connect(
                self._target, autocommit=True, application_name="pgsluice metrics"
            ) as connection:
                self._read_parts(connection, families)
        except SluiceError as error:
            self._report(error)
            families = _Families()
            families.add("pgsluice_up", 0)
        except psycopg.Error as error:
            self._report(translate(error))
            families = _Families()
            families.add("pgsluice_up", 0)
        else:
            self._is_up = True
            families.add("pgsluice_up", 1)
        families.add("pgsluice_read_duration_seconds", time.monotonic() - began_s)
        return families.all()

    def _report(self, error: SluiceError) -> None:
        """Log the first of consecutive failures."""
        if self._is_up is not False:
            _log.warning('database not read error="%s"', error)
        self._is_up = False

    def _read_parts(self, connection: psycopg.Connection[Any], families: _Families) -> None:
        parts: dict[str, Callable[[psycopg.Connection[Any], _Families], None]] = {
            "server": self._server,
            "maintenance": self._maintenance,
            "queues": self._queues,
            "workers": self._workers,
            "logs": self._logs,
            "groups": self._groups,
            "schedules": self._schedules,
            "pipelines": self._pipelines,
        }
        for name, read in parts.items():
            found = _Families()
            try:
                with connection.transaction():
                    Runner(connection).run(samples.limit_statements(round(self._timeout_s * 1000)))
                    read(connection, found)
            except SluiceError as error:
                if connection.closed:
                    raise
                families.add("pgsluice_read_errors", 1, name)
                _log.debug('part not read part=%s error="%s"', name, error)
            else:
                families.add("pgsluice_read_errors", 0, name)
                families.merge(found)

    def _server(self, connection: psycopg.Connection[Any], families: _Families) -> None:
        families.add("pgsluice_xmin_age_seconds", Runner(connection).run(samples.xmin_age_s()))

    def _maintenance(self, connection: psycopg.Connection[Any], families: _Families) -> None:
        runner = Runner(connection)
        families.add("pgsluice_leader", runner.run(samples.leads()))
        age_s = runner.run(listeners.notifier_age())
        if age_s is not None:
            families.add("pgsluice_notifier_age_seconds", max(0.0, age_s))
        for task, count in runner.run(samples.failing_steps()):
            families.add("pgsluice_maintenance_failing_steps", count, task)

    def _queues(self, connection: psycopg.Connection[Any], families: _Families) -> None:
        client = WorkQueue(connection)
        count = Runner(connection).run(samples.count_queues())
        families.add("pgsluice_queues", count)
        families.add("pgsluice_omitted", max(0, count - self._series_max), "queue")
        states = Operations(connection).list_queue_states(qty=self._series_max)
        for state in states:
            name = state.queue_name
            families.add("pgsluice_queue_ready_messages", state.ready, name)
            families.add("pgsluice_queue_in_flight_messages", state.in_flight, name)
            families.add("pgsluice_queue_retrying_messages", state.retrying, name)
            families.add("pgsluice_queue_delayed_messages", state.delayed, name)
            families.add("pgsluice_queue_oldest_ready_seconds", state.oldest_ready_s or 0.0, name)
            families.add("pgsluice_queue_sent_messages", state.sent, name)
            families.add("pgsluice_queue_finished_messages", state.finished, name)
            families.add("pgsluice_queue_dead_messages", state.dead, name)
        shown = {state.queue_name for state in states}
        for queue in client.list_queues():
            if queue.queue_name in shown:
                families.add_info(
                    "pgsluice_queue",
                    queue=queue.queue_name,
                    partitioned=str(queue.is_partitioned).lower(),
                    unlogged=str(queue.is_unlogged).lower(),
                )

    def _workers(self, connection: psycopg.Connection[Any], families: _Families) -> None:
        workers = Operations(connection).list_workers()
        states = Counter((each.app, "live" if each.is_live else "silent") for each in workers)
        for labels, count in self._limited("app", sorted(states.items()), families):
            families.add("pgsluice_workers", count, *labels)
        sources = Counter(source for each in workers if each.is_live for source in each.sources)
        queues = [
            (source.removeprefix("queue "), count)
            for source, count in sorted(sources.items())
            if source.startswith("queue ")
        ]
        for name, count in self._limited("worked queue", queues, families):
            families.add("pgsluice_queue_workers", count, name)
        paused = [
            of for of in WorkQueue(connection).list_queue_options() if of.paused_at is not None
        ]
        for each in self._limited("paused queue", paused, families):
            families.add("pgsluice_queue_paused", 1, each.queue_name)

    def _logs(self, connection: psycopg.Connection[Any], families: _Families) -> None:
        client = EventLog(connection)
        for log in self._limited("log", client.get_queue_info(), families):
            if log.ticker_lag is not None:
                families.add(
                    "pgsluice_log_tick_age_seconds", log.ticker_lag.total_seconds(), log.log_name
                )
        consumers = [
            found for found in client.list_consumers() if found.last_tick is not None or found.lost
        ]
        for consumer in self._limited("consumer", consumers, families):
            labels = (consumer.log_name, consumer.consumer_name)
            families.add("pgsluice_log_consumer_lag_events", consumer.lag_events or 0, *labels)
            families.add(
                "pgsluice_log_consumer_lag_seconds",
                consumer.lag_s or 0.0,
                *labels,
            )
            families.add("pgsluice_log_pinned_bytes", consumer.pinned_bytes or 0, *labels)
            families.add("pgsluice_log_consumer_lost", consumer.lost is not None, *labels)

    def _groups(self, connection: psycopg.Connection[Any], families: _Families) -> None:
        for group in self._limited("group", EventLog(connection).list_groups(), families):
            labels = (group.log_name, group.group_name)
            families.add("pgsluice_group_lag_events", group.lag_events, *labels)
            families.add("pgsluice_group_lag_seconds", group.lag_s, *labels)
            families.add("pgsluice_group_claimed_events", group.leased, *labels)
            families.add("pgsluice_group_retrying_events", group.retrying, *labels)
            families.add("pgsluice_group_dead_letters", group.dead, *labels)

    def _schedules(self, connection: psycopg.Connection[Any], families: _Families) -> None:
        found = Runner(connection).run(samples.schedule_lateness())
        for name, late_s in self._limited("schedule", found, families):
            families.add("pgsluice_schedule_late_seconds", late_s, name)

    def _pipelines(self, connection: psycopg.Connection[Any], families: _Families) -> None:
        for pipeline in self._limited("pipeline", EventLog(connection).list_pipelines(), families):
            labels = (pipeline.log_name, pipeline.consumer_name)
            families.add("pgsluice_pipeline_running", pipeline.is_running, *labels)
            if pipeline.lag_s is not None:
                families.add("pgsluice_pipeline_lag_seconds", pipeline.lag_s, *labels)

    def _limited(self, kind: str, found: Sequence[Any], families: _Families) -> Sequence[Any]:
        families.add("pgsluice_omitted", max(0, len(found) - self._series_max), kind)
        return found[: self._series_max]


class ShardsCollector(Collector):
    """State of several databases, read at the same time; each sample has the label `shard`."""

    def __init__(self, collectors: Mapping[str, DatabaseCollector]) -> None:
        self._collectors = collectors

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registration must not read the databases."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of all, those of one name together."""
        with ThreadPoolExecutor(max_workers=min(len(self._collectors), _THREADS_MAX)) as threads:
            found = list(threads.map(lambda one: list(one.collect()), self._collectors.values()))
        merged: dict[str, Metric] = {}
        for shard, metrics in zip(self._collectors, found, strict=True):
            for metric in metrics:
                family = merged.setdefault(
                    metric.name, Metric(metric.name, metric.documentation, metric.type)
                )
                family.samples.extend(
                    sample._replace(labels={"shard": shard, **sample.labels})
                    for sample in metric.samples
                )
        return merged.values()
