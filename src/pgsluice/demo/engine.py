"""What runs beside the load: the workers, the ticker, and Spark's stream into the lake."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg.rows import dict_row, scalar_row
from psycopg_pool import ConnectionPool

from pgsluice.demo import consume, load
from pgsluice.demo.database import DemoDatabase
from pgsluice.demo.lake import Lake
from pgsluice.demo.statements import statement
from pgsluice.demo.workspace import Workspace
from pgsluice.spark import pipeline
from pgsluice.spark.session import spark_session
from pgsluice.worker import QueueWorker, Ticker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = "changes"
WORKERS = 3
_LOOK_S = 0.5
_STALL_S = 60.0
# Longer than a handler takes by far; a run that goes on after a crash waits so long for what was claimed.
_VISIBILITY_TIMEOUT_S = 10
_TRIGGER_S = 1.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far everything is.

    Attributes:
        transactions: Committed by the load.
        processed: Messages done.
        queued: Messages in the queue.
        dead: Messages in the dead letters.
        lake_rows: Events in the lake.
    """

    transactions: int
    processed: int
    queued: int
    dead: int
    lake_rows: int

    @property
    def sent(self) -> int:
        """Messages sent: one in each transaction, and the poison."""
        return self.transactions + 1

    @property
    def events(self) -> int:
        """Events in the log: the emptying of the table, its rows, and one change in each transaction."""
        return 1 + load.ACCOUNTS + self.transactions

    @property
    def drained(self) -> bool:
        """Whether the queue is empty and the lake has everything."""
        return self.queued == 0 and self.lake_rows >= self.events


class Engine:
    """Workers, ticker and stream of one start of the demo.

    As a context it starts Spark's Java at once, in the background, and at the end stops everything.

    Args:
        database: The demo's.
        workspace: Where lake and checkpoint are.
    """

    def __init__(self, database: DemoDatabase, workspace: Workspace) -> None:
        self._database = database
        self._workspace = workspace
        self._lake = Lake(workspace.lake)
        self._stop = threading.Event()
        self._threads: list[Future[Any]] = []
        self._stack = ExitStack()
        self._session: Future[SparkSession] | None = None

    def __enter__(self) -> Self:
        executor = ThreadPoolExecutor(WORKERS + 2, thread_name_prefix="demo")
        self._stack.callback(executor.shutdown)
        self._executor = executor
        self._session = executor.submit(self._start_session)
        self._stack.callback(self._stop_session)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._stack.close()

    @property
    def spark(self) -> SparkSession:
        """The session; waits until it has started."""
        assert self._session is not None
        return self._session.result()

    def start(self) -> None:
        """Start the stream, the workers and the ticker; the database is prepared."""
        pool = self._stack.enter_context(
            ConnectionPool(
                self._database.conninfo,
                min_size=WORKERS + 1,
                max_size=WORKERS + 1,
                kwargs={"application_name": "pgsluice demo worker"},
                open=False,
            )
        )
        self._stream = pipeline.events(
            LOG,
            self._workspace.lake,
            self._workspace.checkpoint,
            dsn=self._database.conninfo,
            consumer="lake",
            trigger_s=_TRIGGER_S,
            spark=self.spark,
        )
        self._stack.callback(self._stream.stop)
        for _ in range(WORKERS):
            worker = QueueWorker(
                pool, consume.QUEUE, consume.handle, visibility_timeout_s=_VISIBILITY_TIMEOUT_S
            )
            self._threads.append(self._executor.submit(worker.run, self._stop))
        self._threads.append(self._executor.submit(Ticker(pool).run, self._stop))

    def look(self, db: psycopg.Connection[Any]) -> Progress:
        """Wait a moment and see how far everything is.

        Raises:
            Exception: What a worker, the ticker or the stream failed with.
        """
        self._stop.wait(_LOOK_S)
        for thread in self._threads:
            if thread.done():
                thread.result()
        self._stream.check()
        row = db.cursor(row_factory=dict_row).execute(statement("progress")).fetchone()
        assert row is not None
        return Progress(**row, lake_rows=self._lake.row_count())

    def drain(self, db: psycopg.Connection[Any]) -> Iterator[Progress]:
        """Wait until the queue is empty and the lake has everything, or nothing moves any more.

        A minute without movement ends it too: then the reconciliation says what is missing, and where.
        """
        moved_at = time.monotonic()
        before: Progress | None = None
        while True:
            now = self.look(db)
            yield now
            if now.drained:
                return
            if now != before:
                before, moved_at = now, time.monotonic()
            elif time.monotonic() - moved_at > _STALL_S:
                return
