"""Claims messages, calls a handler, and acknowledges in the handler's own transaction."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool

from pgsluice.client import FailedMessage, Message, WorkQueue
from pgsluice.errors import (
    ArgumentError,
    ConnectionFailedError,
    RetryableError,
    SluiceError,
    translate,
)
from pgsluice.worker.engine.ending import failure_of
from pgsluice.worker.engine.failure_log import FailureLog, Origin
from pgsluice.worker.engine.lost_sessions import UNCOUNTED_MAX
from pgsluice.worker.forks import close_in_forks, end_fork
from pgsluice.worker.handlers.retry import Retry
from pgsluice.worker.pause import next_delay_s
from pgsluice.worker.wakeups.listener import Listener
from pgsluice.worker.wakeups.subscription import Subscription

Handler = Callable[[psycopg.Connection[Any], Message], None]

_log = logging.getLogger(__name__)


class _LostClaimError(Exception):
    """The message was acknowledged by somebody else while the handler ran."""


@dataclass(frozen=True, slots=True)
class Round:
    """What became of the messages of one `run_once`."""

    archived: int = 0
    retried: int = 0
    dead: int = 0
    lost: int = 0

    @property
    def claimed(self) -> int:
        """How many messages were claimed."""
        return self.archived + self.retried + self.dead + self.lost


class QueueWorker:
    """Run a handler for the messages of a work queue.

    The handler gets a connection in an open transaction, and the message is archived in that same transaction: what
    the handler writes there has an exactly-once effect, although delivery is at least once. When the handler raises,
    its writes are rolled back and the message is tried again after a delay, or goes to the dead letters after the
    last attempt. When the process dies, the message becomes visible again after the visibility timeout.

    An attempt is a start of the handler: one that ends with the process counts, so a message that kills its worker ends
    among the dead letters too. The first claim counts whether its handler started or not, unless the message was given
    back; of those behind, only what was started does, so what was claimed behind such a message does not share its end.
    """

    def __init__(
        self,
        pool: ConnectionPool[Any],
        queue_name: str,
        handler: Handler,
        *,
        qty: int = 10,
        visibility_timeout_s: int = 30,
        poll_interval_s: float = 0.1,
        retry: Retry | None = None,
        listener: Listener | None = None,
    ) -> None:
        """Prepare a worker; nothing is claimed yet.

        Args:
            pool: Gives the connections; one at a time is used.
            queue_name: An existing queue.
            handler: Called with a connection in a transaction, and the message. It must not commit or roll back.
            qty: The most messages to claim at once, 1 or more. They are handled one after the other.
            visibility_timeout_s: For how long they are hidden; must exceed the time that `qty` handlers take. A
                message whose handler would start later is left to whoever claims it next.
            poll_interval_s: Seconds between two looks at an empty queue; with a listener, only while that is not to be
                relied on.
            retry: When to try again and when to give up.
            listener: Tells when to look at an empty queue again; without one the worker polls. Many may share one.
        """
        if qty < 1:
            raise ArgumentError(f"qty is {qty}; use 1 or more")
        if visibility_timeout_s < 1:
            raise ArgumentError(
                f"visibility_timeout_s is {visibility_timeout_s}; use 1 or more seconds"
            )
        self._pool = pool
        self._queue = WorkQueue(pool)
        self._queue_name = queue_name
        self._handler = handler
        self._qty = qty
        self._visibility_timeout_s = visibility_timeout_s
        self._poll_interval_s = poll_interval_s
        self._retry = retry or Retry()
        self._policy = {"max_attempts": self._retry.max_attempts}
        self._listener = listener
        self._failures = FailureLog()

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set; the message in hand is finished first.

        A lost connection is waited out, with growing delays; it never ends the loop.

        Raises:
            SluiceError: What waiting does not mend, such as a queue that does not exist.
        """
        try:
            if self._listener is None:
                self._run(stop, None)
                return
            with self._listener.subscribe(self._queue_name) as subscription:
                self._run(stop, subscription)
        finally:
            self._failures.flush()

    def _run(self, stop: threading.Event, subscription: Subscription | None) -> None:
        delay_s = 0.0
        while not stop.is_set():
            try:
                done = self.run_once(stop)
            except (ConnectionFailedError, RetryableError) as error:
                delay_s = next_delay_s(delay_s)
                _log.warning("queue %s: %s; again in %.1f s", self._queue_name, error, delay_s)
                stop.wait(delay_s)
                continue
            delay_s = 0.0
            if done.claimed > 0:
                continue
            if subscription is None:
                stop.wait(self._poll_interval_s)
            else:
                subscription.wait(self._poll_interval_s, stop)

    def run_once(self, stop: threading.Event | None = None) -> Round:
        """Claim once and handle what was claimed.

        Args:
            stop: When it is set, messages not yet started are given back at once.

        Returns:
            What became of them; `claimed` is 0 when the queue had no visible message.

        Raises:
            SluiceError: The server failed; unfinished messages become visible after the visibility timeout.
        """
        # Measured from before the claim, so that our clock never grants more than the server did.
        deadline = time.monotonic() + self._visibility_timeout_s
        messages = self._queue.read(self._queue_name, self._visibility_timeout_s, self._qty)
        counts = {"archived": 0, "retried": 0, "dead": 0, "lost": 0}
        for position, message in enumerate(messages):
            if stop is not None and stop.is_set():
                self._queue.hand_back(self._queue_name, messages[position:])
                break
            if time.monotonic() >= deadline:
                counts["lost"] += len(messages) - position
                break
            counts[self._start(message)] += 1
        return Round(**counts)

    def _start(self, message: Message) -> str:
        # Of the first claim nobody notes that it starts: a message that works costs its claim and its archiving.
        if message.read_ct == 1 and self._retry.max_attempts > 1:
            return self._handle(message, attempt=1)
        (begun,) = self._queue.begin_attempts(
            self._queue_name, [message], max_attempts=self._retry.max_attempts
        )
        if begun.outcome != "begun" or begun.attempt is None:
            return begun.outcome
        return self._handle(message, begun.attempt)

    def _handle(self, message: Message, attempt: int) -> str:
        try:
            with self._pool.connection() as connection, connection.transaction():
                close_in_forks(connection)
                pid = os.getpid()
                try:
                    self._handler(connection, message)
                finally:
                    end_fork(pid, sys.exception())
                (claim,) = WorkQueue(connection).archive_claimed(self._queue_name, [message])
                if claim.outcome != "done":
                    raise _LostClaimError  # noqa: TRY301 - it must leave the transaction to roll it back
        except _LostClaimError:
            return "lost"
        except ConnectionFailedError:
            self._release(message, attempt)
            raise
        except Exception as error:
            if isinstance(error, psycopg.Error):
                meaning = translate(error)
                if isinstance(meaning, ConnectionFailedError):
                    self._release(message, attempt)
                    raise meaning from error
            return self._failed(message, attempt, error)
        return "archived"

    def _release(self, message: Message, attempt: int) -> None:
        """Give back a message whose session was lost, uncounted; the handler may be what ends it, so not for ever."""
        if message.read_ct - attempt < UNCOUNTED_MAX:
            with contextlib.suppress(SluiceError):  # then it is back after the visibility timeout
                self._queue.hand_back(self._queue_name, [message])

    def _failed(self, message: Message, attempt: int, error: Exception) -> str:
        name = type(error).__name__
        delay_s = self._retry.delay_s(attempt)
        failure = FailedMessage(
            message,
            delay_s=delay_s,
            reject=self._retry.is_last(attempt),
            reason=f"failed {attempt} times, last with {name}",
            error_type=name,
            error="".join(traceback.format_exception(error)),
        )
        (failed,) = self._queue.fail(self._queue_name, [failure], policy=self._policy)
        self._failures.report(
            Origin((("queue", self._queue_name),), "msg_id"),
            message.msg_id,
            attempt,
            failure_of(error),
            failed.outcome if failed.outcome in ("retry", "dead") else "stale",
            next_retry_s=delay_s,
            payload=message.message,
        )
        return {"retry": "retried", "dead": "dead"}.get(failed.outcome, "lost")
