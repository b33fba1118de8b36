"""State shared by the contexts of `async def` and `def` handlers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, MutableMapping
from datetime import datetime
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.pq import TransactionStatus

from pgsluice.client.calls import Call
from pgsluice.errors import TRANSIENT, ConnectionFailedError, HandlerError, LeaseLostError
from pgsluice.worker.engine.claim.source import Source
from pgsluice.worker.engine.connections.connections import Connections
from pgsluice.worker.engine.connections.lost import was_lost
from pgsluice.worker.engine.connections.sessions import has_ended
from pgsluice.worker.engine.delivery import Delivery, Result
from pgsluice.worker.engine.run.time_limit import Waits
from pgsluice.worker.forks import process_id
from pgsluice.worker.handlers.handler import Execution, HandlerSpec

_UNREACHABLE = (psycopg.OperationalError, TimeoutError, *TRANSIENT)
# Also without files, memory or threads for a connection.
NOT_LENT = (psycopg.Error, OSError, MemoryError, RuntimeError, *TRANSIENT)
# Most contexts never need the event that it guards.
_MAKING = threading.Lock()


class BaseContext:
    """Message metadata and lease state available to every handler."""

    def __init__(
        self,
        spec: HandlerSpec,
        delivery: Delivery,
        source: Source | None,
        connections: Connections | None,
    ) -> None:
        self._spec = spec
        self._delivery = delivery
        self._source = source
        self._connections = connections
        self._lost: threading.Event | None = None
        self._began_s = time.monotonic()
        # Shared by the contexts of a batch.
        self.waits = Waits()
        self._pid = process_id()
        self._log: logging.LoggerAdapter[logging.Logger] | None = None
        # True if the handler's transaction settles the message; the engine does not then.
        self.is_acknowledging = False
        self.is_acknowledged = False
        # True if the session of the handler's transaction was lost, or no connection was available.
        self.is_session_lost = False
        # Set when the handler's thread exceeds its timeout; done when it returns.
        self.overrun: asyncio.Future[Any] | None = None
        # A batch handler has one transaction per message, each committed at the end of its block.
        self._commits_at_once = spec.batch is not None

    @property
    def lost(self) -> threading.Event:
        """Set when the message was cancelled, or its lease has expired and another worker may have claimed it.

        An `async def` handler is cancelled then; a `def` handler in a thread cannot be, so a long one should check it.
        """
        if self._lost is None:
            with _MAKING:  # the event loop and the handler's thread must get the same one
                self._lost = self._lost or threading.Event()
        return self._lost

    @property
    def deadline_s(self) -> float | None:
        """Deadline by `timeout_s`, on `time.monotonic`; None without a timeout.

        It moves while the call waits for a connection of the worker, which does not count.
        """
        timeout_s = self._spec.timeout_s
        return None if timeout_s is None else self._began_s + timeout_s + self.waits.total_s()

    @property
    def is_lost(self) -> bool:
        """True if the message was cancelled, or its lease has expired."""
        return self._lost is not None and self._lost.is_set()

    @property
    def handler(self) -> str:
        """The name of the handler."""
        return self._spec.name

    @property
    def source(self) -> str:
        """Display name of the source: `queue mail`, `group mailers of log orders`."""
        return self._delivery.source_name

    @property
    def message_id(self) -> int:
        """`msg_id` of a message, `ev_id` of an event."""
        return self._delivery.message_id

    @property
    def attempt(self) -> int:
        """The number of this attempt; the first is 1."""
        return self._delivery.attempt

    @property
    def headers(self) -> dict[str, Any]:
        """The headers of a message; `ev_type` and `ev_extra1` to `ev_extra4` of an event, those not null."""
        return self._delivery.headers

    @property
    def key(self) -> str | None:
        """Ordering key, or None."""
        return self._delivery.key

    @property
    def sent_at(self) -> datetime:
        """Send time by the server's clock."""
        return self._delivery.sent_at

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger with the handler, source, message id and attempt as extra fields; never the payload."""
        if self._log is None:
            self._log = _Adapter(
                logging.getLogger(f"pgsluice.worker.handlers.{self._spec.name}"),
                {
                    "handler": self.handler,
                    "source": self.source,
                    "message_id": self.message_id,
                    "attempt": self.attempt,
                },
            )
        return self._log

    @property
    def is_overdue(self) -> bool:
        """True if the handler's thread exceeded its timeout and has not returned."""
        return self.overrun is not None and not self.overrun.done()

    @property
    def is_held(self) -> bool:
        """True if the handler's own transaction holds the message, so that its lease does not matter."""
        return self.is_acknowledged or (self.is_acknowledging and self.overrun is None)

    @property
    def delivery(self) -> Delivery:
        """The engine's record of the message."""
        return self._delivery

    def _acknowledgement(self) -> Call[Result]:
        self._require_own_process()
        if self.is_acknowledged or self.is_acknowledging:
            raise HandlerError(
                "the message is already acknowledged; open context.transaction() only once per handler call"
            )
        if self._source is None or self._connections is None:
            if self._spec.execution is Execution.PROCESS:
                raise HandlerError(
                    "context.transaction() is not available in a handler process, which has no connection of the "
                    "worker; run the handler in a thread"
                )
            raise HandlerError(
                "the transaction of a tick batch belongs to the event loop, so a `def` handler of a consumer cannot "
                f"use it; make {self._spec.name!r} an `async def`"
            )
        return self._source.acknowledgement(self._delivery)

    def _require_own_process(self) -> None:
        if process_id() != self._pid:
            raise HandlerError(
                "a fork of a handler has no connection of the context; open one with psycopg.connect()"
            )

    def _recorded_loss(
        self, connection: AsyncConnection[Any] | Connection[Any]
    ) -> Callable[[Any, BaseException | None, Any], bool]:
        """Return an exit callback that records a lost session; it runs before the connection returns to the pool."""

        def record(_kind: Any, error: BaseException | None, _trace: Any) -> bool:
            if was_lost(connection, error):
                self.is_session_lost = True
            return False

        return record

    @contextlib.contextmanager
    def _reaching(self, errors: tuple[type[Exception], ...] = _UNREACHABLE) -> Iterator[None]:
        """Record that the server is unreachable or no connection is available; leave the wait out of the timeout."""
        try:
            with self.waits.counted():
                yield
        except errors:
            self.is_session_lost = True
            raise

    def _check(self, result: Result | None = None) -> None:
        """Raise LeaseLostError if the message was cancelled, or its lease has expired."""
        if result == "lost":
            self.lost.set()
        if self.is_lost:
            raise LeaseLostError(
                f"the lease of message {self.message_id} of {self.source} has expired, so another worker may have "
                "claimed it, or the message was cancelled; the writes of its transaction are rolled back"
            )


class _Adapter(logging.LoggerAdapter[logging.Logger]):
    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


def require_committable(connection: AsyncConnection[Any] | Connection[Any]) -> None:
    """Refuse a transaction that COMMIT would roll back, or that is not open any more.

    psycopg leaves the block of a closed connection without an error, and PostgreSQL answers COMMIT in a failed
    transaction with ROLLBACK.

    Raises:
        HandlerError: It cannot be committed.
    """
    status = connection.info.transaction_status
    if status is TransactionStatus.INTRANS and not has_ended(connection):
        return
    if status is TransactionStatus.INERROR:
        raise HandlerError(
            "cannot commit the transaction: a statement in it failed; wrap statements that may fail in a nested block, "
            "`with connection.transaction():`"
        )
    if status is TransactionStatus.UNKNOWN:
        raise ConnectionFailedError(
            "the connection was lost before the transaction was committed; its writes are rolled back"
        )
    raise HandlerError(
        "the handler ended the transaction itself; leave COMMIT and ROLLBACK to the worker"
    )
