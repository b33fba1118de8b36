"""Notify the listeners of work queues, outside of the producers' transactions."""

from __future__ import annotations

import contextlib
import logging
import math
import random
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from psycopg_pool import ConnectionPool

from pgsluice.backoff import DELAY_MAX_S, Backoff, jittered
from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import listeners as calls
from pgsluice.client.calls.listeners import QueueIds
from pgsluice.errors import ArgumentError, SluiceError
from pgsluice.worker.wakeups.readiness import Readiness

_Item = TypeVar("_Item")

_log = logging.getLogger(__name__)
_NUMBERS = 1 << 20  # the range of sluice.notifier_turn
_STANDBY_MIN_S = 1.0
_STANDBY_LOOK_S = 0.25
_REFRESH_S = 1.0
# While messages arrive: time after a wake-up for which rounds are frequent, and their interval.
_BUSY_S = 1.0
_BUSY_INTERVAL_S = 0.0025
# Maximum share of time spent in rounds, when idle and while messages arrive.
_COST_SHARE = 0.1
_BUSY_COST_SHARE = 0.5
# A statement locks every relation that it reads until it ends, and the server's lock table is shared: by default it has
# 6,400 entries. A queue has a sequence, or a table with its indexes.
_PULSES_AT_ONCE = 500
_POLLS_AT_ONCE = 50


class Notifier:
    """Poll the queues for readable messages, and notify their listeners of changes.

    Producers send no notifications: NOTIFY takes a lock that serializes commits across the whole server. The notifier
    notifies once per queue and round, whether a message became visible by a send, the end of its delay or an expired
    visibility timeout. Any number of processes may run a notifier: one leads. When it stops, it resigns, and a standby
    takes over within a quarter of a second; when it dies, within about a second.
    """

    def __init__(
        self,
        pool: ConnectionPool[Any],
        *,
        poll_interval_s: float = 0.02,
        heartbeat_s: float = 5.0,
    ) -> None:
        """Prepare a notifier.

        Args:
            pool: Provides one connection at a time, of a role that may read the queues (`sluice_reader`).
            poll_interval_s: Interval of idle rounds in seconds, more than 0: the maximum latency of a wake-up. While
                messages arrive, rounds run every 2.5 ms, and exactly when a delay or visibility timeout ends. Rounds
                take at most a tenth of the time, or half of it while messages arrive: one over a thousand idle queues
                takes the server about 5 ms, so there are 20 per second.
            heartbeat_s: Heartbeat interval in seconds, more than 0. Not more than the `heartbeat_s` of the listeners,
                which poll when no heartbeat arrives.
        """
        if not poll_interval_s > 0:
            raise ArgumentError(f"poll_interval_s is {poll_interval_s}; use more than 0 seconds")
        if not heartbeat_s > 0:
            raise ArgumentError(f"heartbeat_s is {heartbeat_s}; use more than 0 seconds")
        self._runner = Runner(pool)
        self._poll_interval_s = poll_interval_s
        self._heartbeat_s = heartbeat_s
        self._standby_s = max(_STANDBY_MIN_S, 3 * poll_interval_s)
        self._busy_until_s = 0.0
        self._due_in_s = math.inf
        self._number = random.randrange(_NUMBERS)  # noqa: S311 - an identifier, not a secret
        self._readiness = Readiness()
        self._queues: list[QueueIds] = []
        self._refresh_at_s = 0.0
        self._heartbeat_at_s = 0.0
        self._is_leader = False

    @property
    def is_leader(self) -> bool:
        """True if it was the leader in its last round; else it is a standby."""
        return self._is_leader

    def run(self, stop: threading.Event) -> None:
        """Run rounds until `stop` is set. A lost connection is retried with increasing back-off.

        Raises:
            SluiceError: A permanent error, such as a role that may not read a queue.
        """
        backoff = Backoff("notifier", _log.log, delay_max_s=DELAY_MAX_S)
        try:
            while not stop.is_set():
                began_s = time.monotonic()
                # Findings of the failed round may not have been notified.
                with backoff.attempt(stop, on_failure=self._step_down):
                    self.run_once()
                    if self._is_leader:
                        stop.wait(self._rest_s(began_s, time.monotonic()))
                    else:
                        stop.wait(jittered(_STANDBY_LOOK_S))
        finally:
            if self._is_leader:
                with contextlib.suppress(SluiceError):
                    self._runner.run(calls.notifier_resign(self._number))
                self._step_down()

    def run_once(self) -> int:
        """Run one round.

        Returns:
            Number of channels notified: one per queue with newly readable messages, and the heartbeat channel when a
            heartbeat is due; 0 for a standby.

        Raises:
            SluiceError: A database error.
        """
        now_s = time.monotonic()
        self._due_in_s = math.inf
        if now_s >= self._refresh_at_s:
            self._refresh_at_s = now_s + _REFRESH_S
            self._queues = self._runner.run(calls.notifier_queues())
            self._readiness.follow((queue.queue_name for queue in self._queues), now_s)
        woken: list[str] = []
        for queues in _parts(self._queues, _PULSES_AT_ONCE):
            if not self._poll(queues, woken):
                return 0
        if woken:
            self._busy_until_s = now_s + _BUSY_S
        heartbeat = now_s >= self._heartbeat_at_s
        if not woken and not heartbeat:
            return 0
        if heartbeat:
            self._heartbeat_at_s = now_s + self._heartbeat_s
        return self._runner.run(calls.notifier_wake(woken, heartbeat=heartbeat))

    def _poll(self, queues: Sequence[QueueIds], woken: list[str]) -> bool:
        """Collect queues whose listeners to notify; True if this notifier leads."""
        sequences = [queue.id_sequence for queue in queues]
        pulse = self._runner.run(calls.notifier_pulse(self._number, self._standby_s, sequences))
        if not pulse.is_leader:
            if self._is_leader:
                _log.info("leader election component=notifier role=standby")
            self._step_down()
            return False
        if not self._is_leader:
            _log.info("leader election component=notifier role=leader")
            self._is_leader = True
            self._heartbeat_at_s = 0.0
        names = [queue.queue_name for queue in queues]
        due = self._readiness.due(names, pulse, time.monotonic())
        for part in _parts(due, _POLLS_AT_ONCE) if due else ():
            found = self._runner.run(
                calls.notifier_poll(
                    [queue.queue_name for queue in part],
                    [queue.ready_after for queue in part],
                    [queue.due_after_s for queue in part],
                )
            )
            polls = {poll.queue_name: poll for poll in found}
            now_s = time.monotonic()
            woken += [
                queue.queue_name
                for queue in part
                if self._readiness.found(queue, polls.get(queue.queue_name), now_s)
            ]
        due_in_s = self._readiness.next_due_s(names) - pulse.server_time_s
        self._due_in_s = min(self._due_in_s, due_in_s)
        return True

    def _rest_s(self, began_s: float, now_s: float) -> float:
        """Return the delay after a round in seconds."""
        interval_s, share = self._poll_interval_s, _COST_SHARE
        if now_s < self._busy_until_s:
            interval_s, share = min(interval_s, _BUSY_INTERVAL_S), _BUSY_COST_SHARE
        if self._due_in_s > 0:  # overdue messages are being claimed now, or locked
            interval_s = min(interval_s, self._due_in_s)
        return max(began_s + interval_s - now_s, (now_s - began_s) * (1 / share - 1))

    def _step_down(self) -> None:
        """Forget past notifications: a new leader notifies of all readable messages."""
        self._is_leader = False
        self._readiness = Readiness()
        self._refresh_at_s = 0.0


def _parts(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """Yield the items in parts of at most `size`; one empty part if there are none."""
    for begin in range(0, max(len(items), 1), size):
        yield items[begin : begin + size]
