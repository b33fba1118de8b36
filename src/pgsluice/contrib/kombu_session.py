"""Session of a kombu transport in one process: connection, unacknowledged messages, heartbeats, waiting."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterable

from pgsluice import connection
from pgsluice.client import Message, WorkQueue
from pgsluice.contrib.exchanges import Binding, queue_name_of
from pgsluice.errors import (
    TRANSIENT,
    QueueNotFoundError,
    SluiceError,
)
from pgsluice.worker.wakeups.listener import Listener
from pgsluice.worker.wakeups.subscription import Subscription

_log = logging.getLogger(__name__)
HEARTBEATS = 3  # per visibility timeout: two may fail before it expires
# Poll interval of an empty temporary queue without a notifier: a remote control caller waits for one second.
_TEMPORARY_POLL_S = 0.2
# A temporary queue with a message unread for this long belongs to a killed process.
_UNREAD_S = 300
_UNREAD_CHECK_S = 60.0

Claim = tuple[str, Message]  # queue name and message


class KombuSession:
    """A connection, the unacknowledged messages, and the thread that renews their visibility timeouts.

    It belongs to the process that created it: a fork must neither use nor close it.
    """

    def __init__(
        self, target: connection.Target, visibility_timeout_s: int, polling_interval_s: float
    ) -> None:
        """Connect.

        Raises:
            ConnectionFailedError: The connection failed.
        """
        self._connection = connection.connect(target, autocommit=True)
        self.process_id = os.getpid()
        self.queue = WorkQueue(self._connection)
        self.visibility_timeout_s = visibility_timeout_s
        self.auto_delete: set[str] = set()  # queues deleted with their client
        self.warned: set[tuple[str, str]] = set()  # queues and warnings logged
        self._conninfo = target.conninfo
        self._polling_interval_s = polling_interval_s
        self._claims: dict[str, Claim] = {}  # by delivery tag
        self._look_at_s: dict[str, float] = {}  # next poll by empty queue
        self._unread_check_s: dict[str, float] = {}  # next check by temporary queue of any process
        self._subscriptions: dict[str, Subscription] = {}
        self._listener: Listener | None = None
        self._woken = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, delivery_tag: str, claim: Claim) -> None:
        """Renew a claim until it is let go."""
        self._claims[delivery_tag] = claim
        if self._thread is None:
            name = "pgsluice claims"
            self._thread = threading.Thread(target=self._keep_claims, name=name, daemon=True)
            self._thread.start()

    def let_go(self, delivery_tag: str) -> Claim | None:
        """Stop renewing a claim, and return it; None if it is settled already."""
        claim = self._claims.pop(delivery_tag, None)
        self._woken.set()  # the prefetch limit allows another message
        return claim

    def release_deliveries(self, delivery_tags: Iterable[str]) -> None:
        """Release messages. If the server is unreachable, they are redelivered after the visibility timeout."""
        claims = [claim for tag in delivery_tags if (claim := self.let_go(tag)) is not None]
        for queue_name, messages in _by_queue(claims).items():
            with contextlib.suppress(*TRANSIENT, QueueNotFoundError):
                self.queue.release_claimed(queue_name, messages)

    def is_due(self, queue_name: str) -> bool:
        """True if a queue is due for polling."""
        return time.monotonic() >= self._look_at_s.get(queue_name, 0.0)

    def found(self, queue_name: str, qty: int) -> None:
        """Record the result of a poll; schedule the next one if the queue is empty."""
        if qty > 0:
            self._look_at_s.pop(queue_name, None)
            return
        interval_s = self._polling_interval_s
        if queue_name in self.auto_delete:
            interval_s = min(interval_s, _TEMPORARY_POLL_S)
        if queue_name in self._subscriptions:
            interval_s = self._subscriptions[queue_name].interval_s(interval_s)
        self._look_at_s[queue_name] = time.monotonic() + interval_s

    def wait(self, queue_names: Iterable[str], timeout_s: float) -> None:
        """Return when a message may be available, a message was settled, or after the timeout."""
        if self._listener is None:
            self._listener = Listener(self._conninfo).__enter__()
        for queue_name in queue_names:
            if queue_name not in self._subscriptions:
                subscription = self._listener.subscribe(
                    queue_name_of(queue_name), woken=self._woken
                )
                self._subscriptions[queue_name] = subscription
        end_s = min([time.monotonic() + timeout_s, *self._look_at_s.values()])
        if self._woken.wait(max(0.0, end_s - time.monotonic())):
            self._woken.clear()  # before the poll, so that later events end the next wait
            self._look_at_s.clear()

    def queues_of(self, exchange: str, routing_key: str) -> list[str]:
        """Return the work queues bound to a message, without temporary queues of killed processes."""
        bound: dict[str, bool] = {}
        for row in self.queue.list_topic_bindings():
            binding = Binding.parse(row.pattern)
            if binding and binding.exchange == exchange and binding.matches(routing_key):
                # Reply queues belong to the caller; broadcast queues outlive killed processes.
                bound[row.queue_name] = binding.is_temporary and binding.type != "direct"
        return [
            name for name, is_checked in bound.items() if not (is_checked and self._is_unread(name))
        ]

    def forget(self, queue_name: str) -> None:
        """Forget a queue."""
        self.auto_delete.discard(queue_name)
        self._look_at_s.pop(queue_name, None)
        if (subscription := self._subscriptions.pop(queue_name, None)) is not None:
            subscription.close()

    def _is_unread(self, queue_name: str) -> bool:
        """Drop a temporary queue whose messages are not read; True if it is gone.

        If its process still runs, it recreates the queue.
        """
        now_s = time.monotonic()
        if now_s < self._unread_check_s.get(queue_name, 0.0):
            return False
        try:
            if (self.queue.metrics(queue_name).oldest_msg_age_sec or 0) > _UNREAD_S:
                self.queue.drop_queue(queue_name)
                return True
        except QueueNotFoundError:
            return True
        self._unread_check_s[queue_name] = now_s + _UNREAD_CHECK_S
        return False

    def close(self) -> None:
        """Release claimed messages, drop the queues deleted with their client, and close the connections."""
        if self.process_id != os.getpid() or self._closed.is_set():
            return
        self._closed.set()
        self.release_deliveries(list(self._claims))
        for queue_name in self.auto_delete:
            with contextlib.suppress(SluiceError):
                self.queue.drop_queue(queue_name_of(queue_name))
        if self._listener is not None:
            self._listener.__exit__()
        self._connection.close()

    def _keep_claims(self) -> None:
        while not self._closed.wait(self.visibility_timeout_s / HEARTBEATS):
            self._extend_claims()

    def _extend_claims(self) -> None:
        """Renew all claims of this process, in one call for each queue."""
        for queue_name, messages in _by_queue(list(self._claims.values())).items():
            try:
                outcomes = self.queue.extend_claimed(
                    queue_name, messages, self.visibility_timeout_s
                )
            except SluiceError as error:
                _log.warning('renewal failed queue=%s error="%s"', queue_name, error)
                continue
            for lost in outcomes:
                if lost.outcome == "stale":
                    _log.warning(
                        "visibility timeout expired queue=%s msg_id=%d", queue_name, lost.msg_id
                    )


def _by_queue(claims: Iterable[Claim]) -> dict[str, list[Message]]:
    by_queue: dict[str, list[Message]] = {}
    for queue_name, message in claims:
        by_queue.setdefault(queue_name, []).append(message)
    return by_queue
