"""Hold the consumer of a running stream, move its position, and report its progress, for each shard.

Two queries under one consumer name would each move its position past events that the other has not read. So a session
of the driver holds the name while the query runs. The process in which Spark keeps the reader does not: Spark does not
tell it when the query stops.

Spark commits a micro-batch only when it plans the next one. So the thread of the keeper moves the position after each
micro-batch, and the lag that PostgreSQL shows is that of the lake.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import psycopg

from pgsluice.client.calls import pipelines as calls
from pgsluice.errors import ConsumerInUseError, SluiceError
from pgsluice.spark.access import run
from pgsluice.spark.failure import engine_errors
from pgsluice.spark.offsets import Offset
from pgsluice.spark.reconnecting import ReconnectingConnection
from pgsluice.spark.running import Progress
from pgsluice.spark.shards import LogShard

_log = logging.getLogger(__name__)
# A server ends the session of a holder that is silent for 30 s; see sluice.report_pipeline.
_REPORT_S = 5.0
_HOLD_DEADLINE_S = 40.0
_LOOK_AGAIN_S = 0.2


class Keeper:
    """Holder of a stream's consumer, on a connection of its own per shard.

    Attributes:
        failure: The error that ended the query; None without one.
        rows_left: Events that are not in the lake, up to the newest tick, approximately; None before the first report.

    Args:
        shards: The stream's shards; their connections are not used.
        kind: Kind of the pipeline.
        lake: Address of the lake.
        hold_deadline_s: Maximum wait for another session to release the consumer: that of a killed driver ends soon.
        report_s: Time between two reports.
    """

    def __init__(
        self,
        shards: Mapping[str, LogShard],
        *,
        kind: str,
        lake: str,
        hold_deadline_s: float = _HOLD_DEADLINE_S,
        report_s: float = _REPORT_S,
    ) -> None:
        self.failure: ConsumerInUseError | None = None
        self.rows_left: int | None = None
        self._kind = kind
        self._lake = lake
        self._hold_deadline_s = hold_deadline_s
        self._report_s = report_s
        self._connections = {
            name: ReconnectingConnection(
                shard.access, self._hold(shard), application_name="pgsluice pipeline"
            )
            for name, shard in shards.items()
        }
        self._shards = {
            name: LogShard(
                shard.access, shard.options, name=name, connection=self._connections[name]
            )
            for name, shard in shards.items()
        }
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._progress: Callable[[], tuple[Progress, Mapping[str, Offset]]] | None = None
        self._before_commit: Callable[[], None] = lambda: None
        self._seen = Progress()
        self._committed_at: datetime | None = None

    def hold(self) -> None:
        """Hold the consumer on all shards.

        Raises:
            ConsumerInUseError: Another session did not release it in time.
            SluiceError: A server is unreachable.
        """
        for connection in self._connections.values():
            connection.open()

    def start(
        self,
        progress: Callable[[], tuple[Progress, Mapping[str, Offset]]],
        *,
        is_active: Callable[[], bool],
        end: Callable[[], None],
        before_commit: Callable[[], None],
    ) -> None:
        """Start the thread.

        Args:
            progress: Returns the progress of the stream, and its last offsets by shard.
            is_active: True while the query runs; while it does not, the consumer is released.
            end: Ends the query; called if another session has taken the consumer after a lost connection.
            before_commit: Called before each move of the position.
        """
        self._progress, self._before_commit = progress, before_commit
        ended: tuple[type[Exception], ...] = (OSError, *engine_errors())

        def keep() -> None:
            while not self._stop.wait(self._report_s):
                try:
                    if is_active():
                        self._report()
                    else:
                        self._close()
                except ConsumerInUseError as failure:
                    self.failure = failure
                    end()
                    return
                except ended:
                    return  # Java has ended, as after Ctrl-C
                except SluiceError as error:
                    # The stream itself meets the same error, and retries it or fails.
                    _log.debug("progress not reported: %s", error)

        self._thread = threading.Thread(target=keep, name="pgsluice keeper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Report the last progress, and release the consumer."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if self.failure is None and all(one.is_open for one in self._connections.values()):
            with suppress(SluiceError, OSError, *engine_errors()):
                self._report()
        self._close()

    def _report(self) -> None:
        if self._progress is None:
            return
        progress, offsets = self._progress()
        if progress.micro_batches != self._seen.micro_batches:
            self._committed_at = datetime.now(UTC)
        if progress.offset != self._seen.offset:
            self._before_commit()
        left: list[int | None] = []
        for name, shard in self._shards.items():
            options = shard.options
            if progress.offset != self._seen.offset and name in offsets:
                shard.commit(offsets[name])
            call = calls.report_pipeline(
                options.log_name, str(options.consumer), progress.rows, self._committed_at
            )
            left.append(self._connections[name].run(call))
        known = [one for one in left if one is not None]
        self.rows_left = sum(known) if known else None
        self._seen = progress

    def _close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _hold(self, shard: LogShard) -> Callable[[psycopg.Connection[Any]], None]:
        log, consumer = shard.options.log_name, str(shard.options.consumer)

        def hold(connection: psycopg.Connection[Any]) -> None:
            call = calls.hold_pipeline(
                log, consumer, self._kind, self._lake, connection.info.backend_pid
            )
            end_s = time.monotonic() + self._hold_deadline_s
            is_first = True
            while True:
                is_held, holder = run(connection, call, shard.access.conninfo())
                if is_held:
                    return
                if is_held is None:
                    _log.warning(
                        "a second query under this consumer name would not be detected behind a pooler; connect the "
                        "pipeline directly",
                        extra={"consumer": consumer},
                    )
                    return
                in_use = f"consumer {consumer!r} of event log {log!r} is in use by {holder}"
                if time.monotonic() > end_s or self._stop.is_set():
                    raise ConsumerInUseError(f"{in_use}; stop that query, or use another consumer")
                if is_first:
                    _log.warning("waiting: %s", in_use)
                is_first = False
                self._stop.wait(_LOOK_AGAIN_S)

        return hold
