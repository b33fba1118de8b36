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
from pgsluice.client.calls.upkeep import resign
from pgsluice.errors import SluiceError
from pgsluice.ranges import require_positive_s
from pgsluice.worker.wakeups.readiness import Readiness, averaged

_Item = TypeVar("_Item")

_log = logging.getLogger(__name__)
_NUMBERS = 1 << 22  # the range of candidates of sluice.lead
_STANDBY_MIN_S = 1.0
_STANDBY_LOOK_S = 0.25
# Minimum interval of reading the list of queues, and its maximum share of time: the server takes 15 ms for a thousand.
_REFRESH_S = 1.0
_REFRESH_COST_SHARE = 0.02
# While messages arrive: time after a wake-up for which rounds are frequent, and their interval.
_BUSY_S = 1.0
_BUSY_INTERVAL_S = 0.001
# Maximum time for which a round waits for new messages in the server. It holds a snapshot meanwhile, so the server
# shortens it if others write.
_WAIT_S = 0.25
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
        poll_interval_s: float = 0.005,
        heartbeat_s: float = 5.0,
    ) -> None:
        """Prepare a notifier.

        Args:
            pool: Provides one connection at a time, of a role that may read the queues (`sluice_reader`).
            poll_interval_s: Interval in seconds at which the server looks for new messages while idle, more than 0: the
                maximum latency of a wake-up. While messages arrive it looks every millisecond; a delay or visibility
                timeout is noticed exactly when it ends. Looks take at most a tenth of the time, and polls of queues
                too, or half of it while messages arrive: a look at a thousand idle queues takes the server about 5 ms,
                so there are 20 per second.
            heartbeat_s: Heartbeat interval in seconds, more than 0. Not more than the `heartbeat_s` of the listeners,
                which poll when no heartbeat arrives.

        A new queue is found within a second, and within some ten seconds if there are 10,000.
        """
        require_positive_s(poll_interval_s, "poll_interval_s")
        require_positive_s(heartbeat_s, "heartbeat_s")
        self._runner = Runner(pool)
        self._poll_interval_s = poll_interval_s
        self._heartbeat_s = heartbeat_s
        self._standby_s = max(_STANDBY_MIN_S, 3 * poll_interval_s)
        self._busy_until_s = 0.0
        self._due_in_s = math.inf
        self._cost_s = 0.0
        self._number = random.randrange(_NUMBERS)  # noqa: S311 - an identifier, not a secret
        self._readiness = Readiness()
        self._queues: list[QueueIds] = []
        self._refresh_at_s = 0.0
        self._heartbeat_at_s = 0.0
        self._is_leader = False
        self._notified = 0

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
        wait_s = 0.0
        try:
            while not stop.is_set():
                # Findings of the failed round may not have been notified.
                with backoff.attempt(stop, on_failure=self._step_down):
                    cost_s = self._run_round(wait_s)
                    wait_s = 0.0
                    if not self._is_leader:
                        stop.wait(jittered(_STANDBY_LOOK_S))
                        continue
                    rest_s = self._rest_s(cost_s)
                    if len(self._queues) <= _PULSES_AT_ONCE:
                        wait_s = min(rest_s, _WAIT_S)
                    if rest_s > wait_s:
                        stop.wait(rest_s - wait_s)
        finally:
            if self._is_leader:
                with contextlib.suppress(SluiceError):
                    self._runner.run(resign("notifier", self._number))
                self._step_down()

    def run_once(self) -> int:
        """Run one round.

        Returns:
            Number of channels notified: one per queue with newly readable messages, and the heartbeat channel when a
            heartbeat is due; 0 for a standby.

        Raises:
            SluiceError: A database error.
        """
        self._run_round(0.0)
        return self._notified

    def _run_round(self, wait_s: float) -> float:
        """Run one round that waits for new messages in the server; return the duration of its work in seconds."""
        began_s = now_s = time.monotonic()
        self._due_in_s = math.inf
        self._notified = 0
        woken: list[str] = []
        if not self._is_leader:
            self._poll([], woken, 0.0)  # a standby does not read the list of queues
            if not self._is_leader:
                return time.monotonic() - began_s
        if now_s >= self._refresh_at_s:
            self._queues = self._runner.run(calls.notifier_queues())
            read_at_s = time.monotonic()
            self._refresh_at_s = read_at_s + max(
                _REFRESH_S, (read_at_s - now_s) / _REFRESH_COST_SHARE
            )
            self._readiness.follow((queue.queue_name for queue in self._queues), now_s)
        waited_s = 0.0
        parts = list(_parts(self._queues, _PULSES_AT_ONCE))
        for queues in parts:
            waited_s += self._poll(queues, woken, wait_s if len(parts) == 1 else 0.0)
            if not self._is_leader:
                return time.monotonic() - began_s
        now_s = time.monotonic()
        if woken or self._notified:
            self._busy_until_s = now_s + _BUSY_S
        heartbeat = now_s >= self._heartbeat_at_s
        if heartbeat:
            self._heartbeat_at_s = now_s + self._heartbeat_s
        if woken or heartbeat:
            self._notified += self._runner.run(calls.notifier_wake(woken, heartbeat=heartbeat))
        return time.monotonic() - began_s - waited_s

    def _poll(self, queues: Sequence[QueueIds], woken: list[str], wait_s: float) -> float:
        """Collect queues whose listeners to notify; return the duration of the wait in seconds."""
        began_s = time.monotonic()
        names = [queue.queue_name for queue in queues]
        pause_s = self._poll_interval_s
        if began_s < self._busy_until_s:
            pause_s = min(pause_s, _BUSY_INTERVAL_S)
        pulse = self._runner.run(
            calls.notifier_pulse(
                *(self._number, self._standby_s, self._readiness.watches(queues, began_s)),
                *(wait_s, pause_s),
            )
        )
        if not pulse.is_leader:
            if self._is_leader:
                _log.info("leader election component=notifier role=standby")
            self._step_down()
            return 0.0
        if not self._is_leader:
            _log.info("leader election component=notifier role=leader")
            self._is_leader = True
            self._heartbeat_at_s = 0.0
        now_s = time.monotonic()
        due = self._readiness.due(names, pulse, now_s)
        self._notified += self._readiness.announced(names, pulse, now_s)
        waited_s = min(wait_s, now_s - began_s)
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
        return waited_s

    def _rest_s(self, cost_s: float) -> float:
        """Return the time until the next round in seconds, after one whose work took `cost_s`."""
        self._cost_s = averaged(self._cost_s, cost_s)
        now_s = time.monotonic()
        is_busy = now_s < self._busy_until_s
        interval_s = _WAIT_S
        if len(self._queues) > _PULSES_AT_ONCE:  # the rounds do not wait in the server
            interval_s = min(self._poll_interval_s, _BUSY_INTERVAL_S if is_busy else math.inf)
        if self._due_in_s > 0:  # overdue messages are being claimed now, or locked
            interval_s = min(interval_s, self._due_in_s)
        next_poll_s = self._readiness.next_poll_s(queue.queue_name for queue in self._queues)
        interval_s = min(interval_s, next_poll_s - now_s, self._refresh_at_s - now_s)
        share = _BUSY_COST_SHARE if is_busy else _COST_SHARE
        return max(0.0, interval_s, self._cost_s * (1 / share - 1))

    def _step_down(self) -> None:
        """Forget past notifications: a new leader notifies of all readable messages."""
        self._is_leader = False
        self._readiness = Readiness()
        self._refresh_at_s = 0.0


def _parts(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """Yield the items in parts of at most `size`; one empty part if there are none."""
    for begin in range(0, max(len(items), 1), size):
        yield items[begin : begin + size]
