"""Names, types, labels and help texts of the metrics of the database."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    Attributes:
        name: Its name; in the text a counter has the suffix `_total`, and an info metric `_info`.
        kind: `gauge`, `counter` or `info`.
        labels: Names of its labels.
        help: Help text.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str

    @property
    def sample_name(self) -> str:
        """Name of its samples, as in queries."""
        return self.name + {"gauge": "", "counter": "_total", "info": "_info"}[self.kind]


_QUEUE = ("queue",)
_CONSUMER = ("log", "consumer")
_GROUP = ("log", "group")

METRICS: tuple[Metric, ...] = (
    Metric("pgsluice_up", "gauge", (), "1 if the database could be read, else 0."),
    Metric(
        "pgsluice_read_duration_seconds",
        "gauge",
        (),
        "Duration of the last reading of the database.",
    ),
    Metric(
        "pgsluice_read_errors",
        "gauge",
        ("part",),
        "1 if a part could not be read, such as without a privilege; else 0.",
    ),
    Metric(
        "pgsluice_omitted",
        "gauge",
        ("kind",),
        "Queues, consumers, groups and others beyond the limit, whose series are left out.",
    ),
    Metric("pgsluice_leader", "gauge", (), "1 if a process leads maintenance, else 0."),
    Metric(
        "pgsluice_notifier_age_seconds",
        "gauge",
        (),
        "Time since the last poll of a notifier; absent without one.",
    ),
    Metric(
        "pgsluice_maintenance_failing_steps",
        "gauge",
        ("task",),
        "Maintenance steps whose last attempt failed.",
    ),
    Metric(
        "pgsluice_xmin_age_seconds",
        "gauge",
        (),
        "Age of the oldest transaction that holds back the xmin horizon; needs pg_read_all_stats.",
    ),
    Metric("pgsluice_queues", "gauge", (), "Number of work queues."),
    Metric(
        "pgsluice_queue",
        "info",
        ("queue", "partitioned", "unlogged"),
        "Properties of a work queue.",
    ),
    Metric(
        "pgsluice_queue_ready_messages",
        "gauge",
        _QUEUE,
        "Messages that can be read now; an estimate above 5,000.",
    ),
    Metric(
        "pgsluice_queue_in_flight_messages",
        "gauge",
        _QUEUE,
        "Messages that are claimed, and whose lease has not ended; an estimate above 5,000.",
    ),
    Metric(
        "pgsluice_queue_retrying_messages",
        "gauge",
        _QUEUE,
        "Messages that failed or were released, and wait for their next attempt; an estimate above 5,000.",
    ),
    Metric(
        "pgsluice_queue_delayed_messages",
        "gauge",
        _QUEUE,
        "Messages that become visible for the first time later; an estimate above 5,000.",
    ),
    Metric(
        "pgsluice_queue_oldest_ready_seconds",
        "gauge",
        _QUEUE,
        "Time since the oldest ready message became visible; 0 without ready messages.",
    ),
    Metric(
        "pgsluice_queue_sent_messages",
        "counter",
        _QUEUE,
        "Message ids assigned, including those of rolled back sends.",
    ),
    Metric(
        "pgsluice_queue_finished_messages",
        "counter",
        _QUEUE,
        "Messages that left the queue: acknowledged, dead-lettered or purged in steps.",
    ),
    Metric("pgsluice_queue_dead_messages", "gauge", _QUEUE, "Dead letters, counted up to 10,000."),
    Metric(
        "pgsluice_queue_workers",
        "gauge",
        _QUEUE,
        "Live worker processes that claim from a queue; absent without any.",
    ),
    Metric("pgsluice_queue_paused", "gauge", _QUEUE, "1 for a paused queue; absent otherwise."),
    Metric(
        "pgsluice_workers",
        "gauge",
        ("app", "state"),
        "Worker processes by app; state: live, or silent for 90 seconds or without its session.",
    ),
    Metric(
        "pgsluice_log_tick_age_seconds",
        "gauge",
        ("log",),
        "Time since the newest tick of an event log.",
    ),
    Metric(
        "pgsluice_log_consumer_lag_events",
        "gauge",
        _CONSUMER,
        "Events that a consumer has not finished; numbers of rolled back events count.",
    ),
    Metric(
        "pgsluice_log_consumer_lag_seconds",
        "gauge",
        _CONSUMER,
        "Age of the oldest event that a consumer has not finished; 0 if there is none.",
    ),
    Metric(
        "pgsluice_log_pinned_bytes", "gauge", _CONSUMER, "Bytes of segments kept for a consumer."
    ),
    Metric(
        "pgsluice_log_consumer_lost",
        "gauge",
        _CONSUMER,
        "1 if the position of a consumer was dropped, else 0.",
    ),
    Metric(
        "pgsluice_group_lag_events", "gauge", _GROUP, "Events that a share group has not claimed."
    ),
    Metric(
        "pgsluice_group_lag_seconds",
        "gauge",
        _GROUP,
        "Age of the oldest event that a share group has not claimed.",
    ),
    Metric("pgsluice_group_claimed_events", "gauge", _GROUP, "Events claimed and not settled."),
    Metric("pgsluice_group_retrying_events", "gauge", _GROUP, "Events waiting for redelivery."),
    Metric("pgsluice_group_dead_letters", "gauge", _GROUP, "Dead letters of a share group."),
    Metric(
        "pgsluice_schedule_late_seconds",
        "gauge",
        ("schedule",),
        "Time since a schedule was due; 0 if it is not due.",
    ),
    Metric(
        "pgsluice_pipeline_running",
        "gauge",
        _CONSUMER,
        "1 if a pipeline into the lake is running, else 0.",
    ),
    Metric(
        "pgsluice_pipeline_lag_seconds",
        "gauge",
        _CONSUMER,
        "Age of the oldest event that a pipeline has not exported; 0 if there is none.",
    ),
)
