"""Queue metrics in gold tables and an HTML report: the pipeline `analytics`.

analytics("/lake/gold", queue="orders", lake="/lake/archives")
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
from pgsluice.lake.address import IcebergNamespace, parse_lake
from pgsluice.lake.file_errors import require_writable
from pgsluice.lake.storage import Folder
from pgsluice.pipelines.paths import delta_folder, session_for
from pgsluice.spark.access import access_for, driver_connection, run
from pgsluice.spark.extra import require_extra
from pgsluice.spark.retry import with_retries
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
    """Count the messages of queues by outcome and measure their latencies, per time window.

    Each message in the lake, the live archives, the dead letters and the queues counts once. Payloads are not read. The
    results overwrite three tables of the lake: `queue_windows`, `queue_totals` and `queue_attempts`; see
    `pgsluice.pipelines.queue_metrics.figures` for their columns.

    Args:
        gold: Folder of the tables, which are Delta tables, and of `report.html`; created if missing.
        queue: Queues; all if empty.
        lake: Folder with the archive of each queue, as the pipeline `archive` writes it, in a folder of the queue's
            name, or `iceberg:catalogue/namespace` with a table of that name; for one queue the table itself. Without it
            only messages in PostgreSQL count.
        window_s: Window length in seconds, 1 or more. Windows begin at multiples of it since 1970.
        since: ISO 8601 time, by default in UTC. Earlier windows and the overall totals are not recomputed: for large
            lakes, and for messages that are deleted everywhere.
        report: True to write the report, which needs matplotlib.
        dsn: DSN; None: by the rule of `pgsluice.connection`.
        spark: Spark session to use; None: start one.
        once: Measure once and return; otherwise repeat until `stop`.
        every_s: Pause between two measurements, seconds.
        stop: Event that ends the repetition.
        on_progress: Called after each measurement.

    Returns:
        Messages read, and commits made.

    Raises:
        MissingExtraError, MissingJavaError: See `session`; the report needs the extra `report`.
        QueueNotFoundError: A queue does not exist.
        ConfigurationError: A folder, a number or a time is invalid.
    """
    require_extra()
    if report and importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError(
            "the report needs the Python package matplotlib; `pip install 'pgsluice[report]'`, or disable the "
            "report"
        )
    if window_s < 1:
        raise ConfigurationError(f"window_s is {window_s}; use whole seconds, 1 or more")
    names = [queue] if isinstance(queue, str) else list(queue)
    place, source = delta_folder(gold, "gold"), None if lake is None else parse_lake(lake)
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
    gold: Folder,
    names: list[str],
    lake: Folder | IcebergNamespace | None,
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
        read_gold(gold)  # raises if there are no earlier windows to keep
    require_writable(gold, "gold")
    session = session_for(spark, "pgsluice analytics")
    with shared_snapshot(dsn) as snapshot:
        messages = with_retries(
            lambda: read_messages(session, snapshot, queues, tables, since).persist()
        )
        try:
            summary = with_retries(lambda: summarise(messages, window_s=window_s, since=since))
        finally:
            messages.unpersist()
    commits = write_gold(gold, summary, queues, since)
    if report:
        from pgsluice.pipelines.queue_metrics.page import write_report

        write_report(gold, REPORT, read_gold(gold))
    return summary.messages, commits


def _queues(names: list[str], dsn: str | None) -> list[str]:
    with ExitStack() as cleanup:
        access = access_for(dsn, cleanup)
        database = cleanup.enter_context(driver_connection(access, autocommit=True))
        existing = [
            found.queue_name for found in run(database, pgmq.list_queues(), access.conninfo())
        ]
    unknown = [name for name in names if name not in existing]
    if unknown:
        raise QueueNotFoundError(names=(unknown[0],))
    if not existing:
        raise QueueNotFoundError("this database has no queue; create one with create(queue_name)")
    return names or existing


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"since = {text!r} is not a valid time; use ISO 8601, such as 2026-01-31T10:00Z"
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
