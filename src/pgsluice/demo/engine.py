"""The processes that run during the load: worker, ticker, notifier, and Spark's stream into the lake."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg_pool import ConnectionPool

from pgsluice.connection import session_options
from pgsluice.demo import consume, load
from pgsluice.demo.database import DemoDatabase
from pgsluice.demo.lake import ChangesLake
from pgsluice.demo.reconcile import LOG
from pgsluice.demo.statements import one_row
from pgsluice.demo.workspace import Workspace
from pgsluice.errors import LogStateError
from pgsluice.sessions import SluiceConnection
from pgsluice.worker import App, Notifier, RetryPolicy, Ticker, Worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pgsluice.pipelines.changes import ChangeStream

WORKERS = 3
_LOOK_S = 0.5
_STALL_S = 60.0
_READY_DEADLINE_S = 300.0  # about 5 s on a quiet machine
# Far longer than a handler takes; a restarted run waits this long for claimed messages.
_LEASE_S = 10.0
_TRIGGER_S = 1.0
_WINDOW_S = 1  # of the metrics, as the load lasts seconds
# A delivery that ends with a crash counts as an attempt: the limit allows several crashes to hit one good message,
# and still dead-letters the poison message during the load.
_RETRY = RetryPolicy(max_attempts=8, backoff_base_s=1, backoff_factor=1.0, backoff_jitter=False)


@dataclass(frozen=True, slots=True)
class DemoProgress:
    """The progress of all parts.

    Attributes:
        transactions: Committed by the load.
        processed: Processed messages.
        queued: Messages in the queue.
        dead: Dead letters.
        lake_rows: Events in the lake.
    """

    transactions: int
    processed: int
    queued: int
    dead: int
    lake_rows: int

    @property
    def sent(self) -> int:
        """Messages sent: one in each transaction, and the poison message."""
        return self.transactions + 1

    @property
    def events(self) -> int:
        """Events in the log: the truncation of the table, its rows, and one change in each transaction."""
        return 1 + load.ACCOUNTS + self.transactions

    @property
    def drained(self) -> bool:
        """True if the queue is empty and the lake is complete."""
        return self.queued == 0 and self.lake_rows >= self.events


class Engine:
    """Worker, ticker, notifier and stream of one start of the demo.

    A context manager that starts Spark's Java in the background, and stops everything at the end.

    Args:
        database: The demo's database.
        workspace: The folder of lake and checkpoint.
    """

    def __init__(self, database: DemoDatabase, workspace: Workspace) -> None:
        self._database = database
        self._workspace = workspace
        self._lake = ChangesLake(workspace.events)
        self._stop = threading.Event()
        self._threads: list[Future[Any]] = []
        self._stack = ExitStack()
        self._streaming = ExitStack()

    def __enter__(self) -> Self:
        self._executor = ThreadPoolExecutor(3, thread_name_prefix="demo")
        self._stack.callback(self._executor.shutdown)
        # One thread for every call of Spark: a session is active in the thread that created it, and formats
        # are looked up in the active session.
        self._spark_thread = ThreadPoolExecutor(1, thread_name_prefix="spark")
        self._stack.callback(self._spark_thread.shutdown)
        self._session = self._spark_thread.submit(_start_session, self._workspace)
        self._stack.callback(self._stop_session)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_exception: object) -> None:
        if kind is not KeyboardInterrupt:
            self._stack.close()
            return
        from pgsluice.spark.session import kill_java

        # As after a crash: the next run resumes.
        kill_java()
        with suppress(Exception):  # what Spark's objects raise without Java
            self._stack.close()

    def start(self) -> None:
        """Start the stream, the worker, the ticker and the notifier; the database must be prepared."""
        pool = self._stack.enter_context(
            ConnectionPool[Any](
                self._database.conninfo,
                connection_class=SluiceConnection,
                min_size=2,
                max_size=2,
                kwargs={
                    **session_options(self._database.conninfo),
                    "application_name": "pgsluice demo upkeep",
                },
                open=False,
            )
        )
        loop = self._stack.enter_context(asyncio.Runner()).get_loop()
        self._stack.callback(self._end_threads)
        self._stack.callback(self._streaming.close)
        self._stream = self._spark_thread.submit(self._start_stream).result()
        self._streaming.callback(self._stream.stop)
        # The first micro-batch holds the initial rows and includes Spark's warm-up, which is excluded from the
        # measurements.
        self._stream.await_ready(deadline_s=_READY_DEADLINE_S)
        self._stack.enter_context(consume.failures_without_traceback())
        for upkeep in (Notifier(pool), Ticker(pool)):
            self._threads.append(self._executor.submit(upkeep.run, self._stop))
        app = App(self._database.conninfo, name="demo worker")
        app.handler(consume.QUEUE, retry=_RETRY, lease_s=_LEASE_S, concurrency=WORKERS)(
            consume.handle
        )
        worker = Worker(app)
        working = self._executor.submit(loop.run_until_complete, worker.run())
        self._threads.append(working)
        # Stop the worker first, as its listener also warns when the notifier stops before it.
        self._stack.callback(wait, [working])
        self._stack.callback(lambda: loop.call_soon_threadsafe(worker.stop))

    def poll(self, db: psycopg.Connection[Any]) -> DemoProgress:
        """Return the progress, after a short wait.

        Raises:
            Exception: An error of the worker, the ticker, the notifier or the stream.
        """
        self._stop.wait(_LOOK_S)
        for thread in self._threads:
            if thread.done():
                thread.result()
        if not self._stream.query.isActive:
            self._stream.drain()  # raises the stream's error
            raise LogStateError(
                "the stream into the lake has ended; start the demo again to continue"
            )
        return DemoProgress(**one_row(db, "progress"), lake_rows=self._lake.row_count())

    def drain(self, db: psycopg.Connection[Any]) -> Iterator[DemoProgress]:
        """Wait until the queue is empty and the lake is complete.

        Also ends after a minute without progress: then the reconciliation shows what is missing.
        """
        moved_at = time.monotonic()
        before: DemoProgress | None = None
        while True:
            now = self.poll(db)
            yield now
            if now.drained:
                return
            if now != before:
                before, moved_at = now, time.monotonic()
            elif time.monotonic() - moved_at > _STALL_S:
                return

    def end_stream(self) -> None:
        """Wait until the current-state table has all events, as it is written after them; then end the stream."""
        self._stream.catch_up(deadline_s=_READY_DEADLINE_S)
        self._streaming.close()

    def archive(self) -> None:
        """Copy the archived messages into the lake."""
        self._spark_thread.submit(self._archive).result()

    def analyse(self) -> None:
        """Write queue metrics to gold tables and a report."""
        self._spark_thread.submit(self._analyse).result()

    def _start_stream(self) -> ChangeStream:
        from pgsluice.pipelines.changes import changes  # imports the extra
        from pgsluice.pipelines.options import StreamOptions

        return changes(
            LOG,
            self._workspace.lake,
            self._workspace.checkpoint,
            dsn=self._database.conninfo,
            reading=StreamOptions(consumer="lake", trigger_s=_TRIGGER_S),
            spark=self._session.result(),
        )

    def _archive(self) -> None:
        from pgsluice.pipelines.archive import archive  # imports the extra

        archive(
            consume.QUEUE,
            self._workspace.archives / consume.QUEUE,
            dsn=self._database.conninfo,
            spark=self._session.result(),
        )

    def _analyse(self) -> None:
        from pgsluice.pipelines.analytics import analytics  # imports the extra

        analytics(
            self._workspace.gold,
            queue=consume.QUEUE,
            lake=self._workspace.archives,
            window_s=_WINDOW_S,
            dsn=self._database.conninfo,
            spark=self._session.result(),
        )

    def _end_threads(self) -> None:
        self._stop.set()
        wait(self._threads)

    def _stop_session(self) -> None:
        # If it failed to start, the error was raised by the call that waited for it.
        if self._session.exception() is None:
            self._session.result().stop()


def _start_session(workspace: Workspace) -> SparkSession:
    from pgsluice.spark.session import spark_session  # imports the extra

    conf = {
        "spark.driver.memory": "1g",
        # In a short run Java's optimising compiler costs more than it saves: 43 s of processor time
        # against 23 s up to the balances (2 cores, jdk 17), and 830 MB of memory against 540 MB.
        "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.warehouse.dir": str(workspace.root / "warehouse"),
    }
    return spark_session("pgsluice demo", conf=conf)
