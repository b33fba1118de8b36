"""Counts and latencies of messages by outcome.

Percentiles are from `percentile_approx`: exact nearest ranks up to 10,000 messages in a window; above that the rank
error is at most 1 in 10,000.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PERCENTILES = (0.5, 0.95, 0.99)
_ACCURACY = 10_000
_MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class Figures:
    """Metrics of one queue, in one time window or overall.

    Attributes:
        queue: Queue name.
        window_start: Start of the window; None overall.
        window_s: Length of the window, seconds; None overall.
        sent: Messages sent in it.
        done: Messages archived in it.
        dead: Messages dead-lettered in it.
        retried: Messages settled in it after more than one attempt.
        retries: Attempts beyond the first of all messages settled in it.
        backlog: Messages sent but not settled at its end; overall, now.
        done_per_s: Throughput: messages archived per second; overall, between the first and the last.
        latency_p50_s, latency_p95_s, latency_p99_s, latency_max_s: Time from send to archive; None without messages.
        work_p50_s, work_p95_s, work_p99_s: Time from the last read to archive.
    """

    queue: str
    window_start: datetime | None = None
    window_s: int | None = None
    sent: int = 0
    done: int = 0
    dead: int = 0
    retried: int = 0
    retries: int = 0
    backlog: int = 0
    done_per_s: float = 0.0
    latency_p50_s: float | None = None
    latency_p95_s: float | None = None
    latency_p99_s: float | None = None
    latency_max_s: float | None = None
    work_p50_s: float | None = None
    work_p95_s: float | None = None
    work_p99_s: float | None = None


@dataclass(frozen=True, slots=True)
class Attempts:
    """The number of messages of a queue that were settled after a number of attempts.

    Attributes:
        queue: Queue name.
        attempts: Number of reads.
        done: Archived messages.
        dead: Dead-lettered messages.
    """

    queue: str
    attempts: int
    done: int
    dead: int


@dataclass(frozen=True, slots=True)
class Summary:
    """All metrics of a run.

    Attributes:
        windows: By queue and time, without empty windows.
        totals: One for each queue with messages.
        attempts: By queue and number.
        messages: Number of messages read.
    """

    windows: Sequence[Figures]
    totals: Sequence[Figures]
    attempts: Sequence[Attempts]
    messages: int


def summarise(messages: DataFrame, *, window_s: int, since: datetime | None = None) -> Summary:
    """Aggregate messages.

    Args:
        messages: From `read_messages`; read three times.
        window_s: Window length, whole seconds; windows begin at multiples of it since 1970.
        since: Omit windows that begin before this time, as they would be incomplete.
    """
    from pyspark.sql import functions as f

    rows = messages.withColumns(
        {
            "ended_in": _window_of("ended_at", window_s),
            "sent_in": _window_of("enqueued_at", window_s),
        }
    )
    is_over = f.col("outcome") != "waiting"
    ended = rows.where(is_over).rollup("queue", "ended_in").agg(*_measures())
    sent = rows.groupBy("queue", "sent_in").agg(f.count(f.lit(1)).alias("sent"))
    attempts = (
        rows.where(is_over)
        .groupBy("queue", "read_ct")
        .agg(
            f.count_if(f.col("outcome") == "done").alias("done"),
            f.count_if(f.col("outcome") == "dead").alias("dead"),
        )
    )
    sent_rows = sent.toArrow().to_pylist()
    windows, totals = combine(ended.toArrow().to_pylist(), sent_rows, window_s=window_s)
    if since is not None:
        windows = [window for window in windows if (window.window_start or since) >= since]
    return Summary(
        windows=windows,
        totals=totals,
        attempts=sorted(
            (
                Attempts(row["queue"], row["read_ct"], row["done"], row["dead"])
                for row in attempts.toArrow().to_pylist()
            ),
            key=lambda found: (found.queue, found.attempts),
        ),
        messages=sum(row["sent"] for row in sent_rows),
    )


def combine(
    ended: Iterable[Mapping[str, Any]], sent: Iterable[Mapping[str, Any]], *, window_s: int
) -> tuple[list[Figures], list[Figures]]:
    """Combine the counts by time sent and by time settled.

    The backlog is the running difference of both. Messages missing from both, as they were settled long ago, do not
    change it.

    Args:
        ended: By queue and window, where None stands for all windows; rows without a queue are ignored.
        sent: By queue and window.
        window_s: Window length.

    Returns:
        The windows by queue and time, and the totals by queue.
    """
    windows: dict[str, dict[int, Figures]] = defaultdict(dict)
    totals: dict[str, Figures] = {}
    for row in ended:
        queue, at = row["queue"], row["ended_in"]
        if queue is None:
            continue
        figures = _figures(row)
        if at is None:
            span_s = max((row["last_us"] or 0) - (row["first_us"] or 0), 0) / _MICROS
            rate = figures.done / span_s if span_s else 0.0
            totals[queue] = replace(figures, done_per_s=rate)
        else:
            windows[queue][at] = replace(figures, done_per_s=figures.done / window_s)
    for row in sent:
        queue, at = row["queue"], row["sent_in"]
        before = windows[queue].get(at, Figures(queue))
        windows[queue][at] = replace(before, sent=row["sent"])
        totals[queue] = totals.get(queue, Figures(queue))
    found = []
    for queue, of_queue in sorted(windows.items()):
        backlog = 0
        for at, figures in sorted(of_queue.items()):
            backlog += figures.sent - figures.done - figures.dead
            start = _EPOCH + timedelta(seconds=at)
            found.append(replace(figures, window_start=start, window_s=window_s, backlog=backlog))
        sent_in_all = sum(figures.sent for figures in of_queue.values())
        totals[queue] = replace(totals[queue], sent=sent_in_all, backlog=backlog)
    return found, [totals[queue] for queue in sorted(totals)]


_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def _window_of(column: str, window_s: int) -> Column:
    """Return the start of the window in seconds since 1970; null without a time."""
    from pyspark.sql import functions as f

    seconds = f.floor(f.unix_micros(f.col(column)) / f.lit(window_s * _MICROS))
    return seconds * f.lit(window_s)


def _measures() -> list[Column]:
    from pyspark.sql import functions as f

    done = f.col("outcome") == "done"
    ended_us = f.unix_micros("ended_at")
    # now() is the start of a transaction, but a read has its own time, which is later within a transaction.
    latency = f.when(done, f.greatest(f.lit(0), ended_us - f.unix_micros("enqueued_at")))
    work = f.when(done, f.greatest(f.lit(0), ended_us - f.unix_micros("last_read_at")))
    again = f.greatest(f.lit(0), f.col("read_ct") - 1)
    return [
        f.count_if(done).alias("done"),
        f.count_if(~done).alias("dead"),
        f.count_if(again > 0).alias("retried"),
        f.sum(again).alias("retries"),
        f.percentile_approx(latency, list(_PERCENTILES), _ACCURACY).alias("latency_us"),
        f.max(latency).alias("latency_max_us"),
        f.percentile_approx(work, list(_PERCENTILES), _ACCURACY).alias("work_us"),
        f.min(f.when(done, ended_us)).alias("first_us"),
        f.max(f.when(done, ended_us)).alias("last_us"),
    ]


def _figures(row: Mapping[str, Any]) -> Figures:
    latency = row["latency_us"] or (None,) * len(_PERCENTILES)
    work = row["work_us"] or (None,) * len(_PERCENTILES)
    return Figures(
        row["queue"],
        done=row["done"],
        dead=row["dead"],
        retried=row["retried"],
        retries=row["retries"] or 0,
        latency_p50_s=_seconds(latency[0]),
        latency_p95_s=_seconds(latency[1]),
        latency_p99_s=_seconds(latency[2]),
        latency_max_s=_seconds(row["latency_max_us"]),
        work_p50_s=_seconds(work[0]),
        work_p95_s=_seconds(work[1]),
        work_p99_s=_seconds(work[2]),
    )


def _seconds(micros: int | None) -> float | None:
    return None if micros is None else micros / _MICROS
