"""How queues fared, in gold tables and a report: the pipeline `analytics`.

analytics("/lake/gold", queue="orders", lake="/lake/archives")     # now
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pgsluice.client.calls import pgmq
from pgsluice.errors import ConfigurationError, MissingExtraError, QueueNotFoundError
from pgsluice.lake.file_errors import require_writable
from pgsluice.pipelines.paths import folder, session_for
from pgsluice.spark.access import access_for, driver_connection, run
from pgsluice.spark.extra import require_extra
from pgsluice.spark.retry import patiently
from pgsluice.spark.running import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPORT = "report.html"


def analytics(
    gold: str | Path,
    *,
    queue: Sequence[str] | str = (),
    lake: str | Path | None = None,
    window_s: int = 600,
    since: str | None = None,
    report: bool = True,
    dsn: str | None = None,
    spark: SparkSession | None = None,
    once: bool = True,
    every_s: float = 600.0,
    stop: threading.Event | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Progress:
    """Count and measure what became of the messages of queues, per window of time.

    Messages are those in the lake, in the live archives, among the dead letters and in the queues, each once. Payloads
    are not read. Three tables of the lake hold the figures, and are written anew: `queue_windows`, `queue_totals` and
    `queue_attempts`; see `pgsluice.pipelines.queue_metrics.figures` for their columns.

    Args:
        gold: The folder of the tables and of `report.html`; made when it is not there.
        queue: Which queues; all when empty.
        lake: A folder with the archive of each queue, as the pipeline `archive` writes it, in a folder of the queue's
            name; for one queue the table itself. Without it only what PostgreSQL still has is counted.
        window_s: Length of a window, seconds, 1 or more. Windows begin at multiples of it since 1970.
        since: A time as ISO 8601 writes it, UTC unless it says otherwise. Windows that begin before it stay as they
            are, and the figures for all of the time too: for large lakes, and for messages that are nowhere any more.
        report: Whether to write the report, which needs matplotlib.
        dsn: Where to connect; by the rule of `pgsluice.connection` when None.
        spark: A session of the caller's; our own when None.
        once: Measure once and return; otherwise again and again until `stop`.
        every_s: How long to rest between, seconds.
        stop: Ends it.
        on_progress: Called after each time.

    Returns:
        How many messages were looked at, in how many commits.

    Raises:
        MissingExtraError, MissingJavaError: See `session`; the report needs the extra `report`.
        QueueNotFoundError: There is no such queue.
        ConfigurationError: A folder, a number or a time cannot be used.
    """
    require_extra()
    if report and importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError(
            "the report needs the Python package matplotlib; `pip install 'pgsluice[report]'`, or leave the "
            "report out"
        )
    if window_s < 1:
        raise ConfigurationError(f"window_s is {window_s}; use whole seconds, 1 or more")
    names = [queue] if isinstance(queue, str) else list(queue)
    place, source = folder(gold, "gold"), None if lake is None else folder(lake, "lake")
    moment = _moment(since)
    ended = stop or threading.Event()
    total = Progress()
    while True:
        messages, commits = _measure(place, names, source, window_s, moment, report, dsn, spark)
        total = Progress(total.rows + messages, total.micro_batches + commits)
        if on_progress is not None:
            on_progress(total)
        if once or ended.wait(every_s):
            return total


def _measure(
    gold: Path,
    names: list[str],
    lake: Path | None,
    window_s: int,
    since: datetime | None,
    report: bool,
    dsn: str | None,
    spark: SparkSession | None,
) -> tuple[int, int]:
    from pgsluice.pipelines.queue_metrics.figures import summarise
    from pgsluice.pipelines.queue_metrics.gold import read_gold, write_gold
    from pgsluice.pipelines.queue_metrics.messages import lake_tables, read_messages
    from pgsluice.spark.shared_snapshot import shared_snapshot

    queues = _queues(names, dsn)
    tables = lake_tables(lake, queues)
    if since is not None:
        read_gold(gold)  # there must be something to stay as it is
    require_writable(gold, "gold")
    session = session_for(spark, "pgsluice analytics")
    with shared_snapshot(dsn) as snapshot:
        messages = patiently(
            lambda: read_messages(session, snapshot, queues, tables, since).persist()
        )
        try:
            summary = patiently(lambda: summarise(messages, window_s=window_s, since=since))
        finally:
            messages.unpersist()
    commits = write_gold(gold, summary, queues, since)
    if report:
        from pgsluice.pipelines.queue_metrics.page import write_report

        write_report(gold / REPORT, read_gold(gold))
    return summary.messages, commits


def _queues(names: list[str], dsn: str | None) -> list[str]:
    with ExitStack() as cleanup:
        access = access_for(dsn, cleanup)
        database = cleanup.enter_context(driver_connection(access, autocommit=True))
        there = [found.queue_name for found in run(database, pgmq.list_queues(), access.conninfo())]
    unknown = [name for name in names if name not in there]
    if unknown:
        raise QueueNotFoundError(
            f"queue {unknown[0]!r} does not exist; create it with create({unknown[0]!r})"
        )
    if not there:
        raise QueueNotFoundError("there is no queue yet; create one")
    return names or there


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"since is {text!r}, which is no time; write 2026-01-31T10:00Z"
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
