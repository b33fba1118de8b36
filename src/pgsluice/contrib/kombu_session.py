"""What a transport of kombu holds in a process: connection, claims, heartbeats, and the wait for messages."""

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
HEARTBEATS = 3  # in a visibility timeout: two may fail before a claim is over
# Of an empty temporary queue, where no notifier runs: a caller of remote control waits for a second.
_TEMPORARY_POLL_S = 0.2
# A temporary queue with a message that is unread for so long belongs to a process that was killed.
_UNREAD_S = 300
_UNREAD_CHECK_S = 60.0

Claim = tuple[str, Message]  # a queue, and what was claimed there


class Session:
    """What one transport holds: a connection, the claims that are not settled, and the thread that extends them.

    It belongs to the process that made it: a child that was forked must not use it, nor close it.
    """

    def __init__(
        self, target: connection.Target, visibility_timeout_s: int, polling_interval_s: float
    ) -> None:
        """Connect.

        Raises:
            ConnectionFailedError: There is no connection.
        """
        self._connection = connection.connect(target, autocommit=True)
        self.process_id = os.getpid()
        self.queue = WorkQueue(self._connection)
        self.visibility_timeout_s = visibility_timeout_s
        self.auto_delete: set[str] = set()  # queues that end with their client
        self.warned: set[tuple[str, str]] = set()  # queues with what was logged of them
        self._conninfo = target.conninfo
        self._polling_interval_s = polling_interval_s
        self._claims: dict[str, Claim] = {}  # by delivery tag
        self._look_at_s: dict[str, float] = {}  # by queue, where it was empty
        self._unread_check_s: dict[str, float] = {}  # by temporary queue of any process
        self._subscriptions: dict[str, Subscription] = {}
        self._listener: Listener | None = None
        self._woken = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, delivery_tag: str, claim: Claim) -> None:
        """Extend a claim until it is let go."""
        self._claims[delivery_tag] = claim
        if self._thread is None:
            name = "pgsluice claims"
            self._thread = threading.Thread(target=self._extend, name=name, daemon=True)
            self._thread.start()

    def let_go(self, delivery_tag: str) -> Claim | None:
        """Extend a claim no more, and return it; None for one that is settled."""
        claim = self._claims.pop(delivery_tag, None)
        self._woken.set()  # there is room for another one
        return claim

    def give_back(self, delivery_tags: Iterable[str]) -> None:
        """Make claimed messages visible. When the server is not there, they become so in time."""
        claims = [claim for tag in delivery_tags if (claim := self.let_go(tag)) is not None]
        for queue_name, messages in _by_queue(claims).items():
            with contextlib.suppress(*TRANSIENT, QueueNotFoundError):
                self.queue.release_claimed(queue_name, messages)

    def is_time_to_look(self, queue_name: str) -> bool:
        """Whether a queue may have something to read."""
        return time.monotonic() >= self._look_at_s.get(queue_name, 0.0)

    def found(self, queue_name: str, qty: int) -> None:
        """Note what a look has found: an empty queue is left alone for a while."""
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
        """Return when there may be something to read, or room for it, or after so long."""
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
            self._woken.clear()  # before the look: what comes from now on ends the next wait
            self._look_at_s.clear()

    def queues_of(self, exchange: str, routing_key: str) -> list[str]:
        """Return the work queues that get a message, without temporary queues of processes that were killed."""
        bound: dict[str, bool] = {}
        for row in self.queue.list_topic_bindings():
            binding = Binding.parse(row.pattern)
            if binding and binding.exchange == exchange and binding.matches(routing_key):
                # A queue for replies is the caller's; those that are broadcast to outlive killed processes.
                bound[row.queue_name] = binding.is_temporary and binding.type != "direct"
        return [
            name for name, is_checked in bound.items() if not (is_checked and self._is_unread(name))
        ]

    def forget(self, queue_name: str) -> None:
        """Wait for a queue no longer."""
        self.auto_delete.discard(queue_name)
        self._look_at_s.pop(queue_name, None)
        if (subscription := self._subscriptions.pop(queue_name, None)) is not None:
            subscription.close()

    def _is_unread(self, queue_name: str) -> bool:
        """Drop a temporary queue whose messages nothing reads; return true if it is gone.

        Its process, if it runs after all, creates it again.
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
        """Give back what is claimed, drop the queues that end with their client, and close the connections."""
        if self.process_id != os.getpid() or self._closed.is_set():
            return
        self._closed.set()
        self.give_back(list(self._claims))
        for queue_name in self.auto_delete:
            with contextlib.suppress(SluiceError):
                self.queue.drop_queue(queue_name_of(queue_name))
        if self._listener is not None:
            self._listener.__exit__()
        self._connection.close()

    def _extend(self) -> None:
        while not self._closed.wait(self.visibility_timeout_s / HEARTBEATS):
            for queue_name, messages in _by_queue(list(self._claims.values())).items():
                try:
                    outcomes = self.queue.extend_claimed(
                        queue_name, messages, self.visibility_timeout_s
                    )
                except SluiceError as error:
                    _log.warning("queue %s: claims not extended: %s", queue_name, error)
                    continue
                for lost in outcomes:
                    if lost.outcome == "stale":
                        _log.warning(
                            "queue %s: the claim of message %d is over", queue_name, lost.msg_id
                        )


def _by_queue(claims: Iterable[Claim]) -> dict[str, list[Message]]:
    by_queue: dict[str, list[Message]] = {}
    for queue_name, message in claims:
        by_queue.setdefault(queue_name, []).append(message)
    return by_queue
