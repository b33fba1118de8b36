"""Wakes the listeners of work queues, outside of the transactions of those who send."""

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
_NUMBERS = 1 << 20  # as many as sluice.notifier_turn has room for
_STANDBY_MIN_S = 1.0
_STANDBY_LOOK_S = 0.25
_REFRESH_S = 1.0
# While messages arrive the rounds follow each other more closely: for so long after one was announced, and so closely.
_BUSY_S = 1.0
_BUSY_INTERVAL_S = 0.0025
# But they take no more of the time than this share of it, else and then.
_COST_SHARE = 0.1
_BUSY_COST_SHARE = 0.5
# A statement locks every relation that it looks at until it ends, and the server's table of locks is for all: by
# default it has room for 6,400. A queue has a sequence, or a table with its indexes.
_PULSES_AT_ONCE = 500
_LOOKS_AT_ONCE = 50


class Notifier:
    """Look again and again what the queues have to read, and wake their listeners when that changes.

    Whoever sends notifies nobody: a notification takes a lock that lets only one transaction of the whole server commit
    at a time. The notifier wakes for all of them, once for each queue and round, whether a message came by a send, by
    the end of its delay or by a claim that lapsed. Any number of processes may run one: one of them leads. When it
    stops, it says so, and another takes over within a quarter of a second; when it dies, within about a second.
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
            pool: Gives one connection at a time, of a role that may read the queues (`sluice_reader`).
            poll_interval_s: Seconds between two rounds while nothing arrives, more than 0: for so long, at most, a
                message waits for its announcement. While messages arrive there is a round every 2.5 ms, and one at the
                very moment when a delay or a claim ends. Rounds take a tenth of the time at most, and then half of it:
                one over a thousand quiet queues takes the server about 5 ms, and so there are 20 in a second.
            heartbeat_s: Seconds between two signs of life, more than 0. Not more than the `heartbeat_s` of the
                listeners: those who hear none poll.
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
        self._number = random.randrange(_NUMBERS)  # noqa: S311 - it tells notifiers apart, and keeps nobody out
        self._readiness = Readiness()
        self._queues: list[QueueIds] = []
        self._refresh_at_s = 0.0
        self._heartbeat_at_s = 0.0
        self._is_leader = False

    @property
    def is_leader(self) -> bool:
        """Whether its last round was the one that wakes; otherwise it stands by."""
        return self._is_leader

    def run(self, stop: threading.Event) -> None:
        """Go round until `stop` is set. A lost connection is waited out, with growing delays.

        Raises:
            SluiceError: What waiting does not mend, such as a role that may not read a queue.
        """
        backoff = Backoff("notifier", _log.log, delay_max_s=DELAY_MAX_S)
        try:
            while not stop.is_set():
                began_s = time.monotonic()
                # What it found last before a failure may not have been announced.
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
        """Go round once.

        Returns:
            How many channels were notified: one for each queue with something new to read, and that of the sign of life
            when it is time for it; 0 in a notifier that stands by.

        Raises:
            SluiceError: The server failed.
        """
        now_s = time.monotonic()
        self._due_in_s = math.inf
        if now_s >= self._refresh_at_s:
            self._refresh_at_s = now_s + _REFRESH_S
            self._queues = self._runner.run(calls.notifier_queues())
            self._readiness.follow((queue.queue_name for queue in self._queues), now_s)
        woken: list[str] = []
        for queues in _parts(self._queues, _PULSES_AT_ONCE):
            if not self._look(queues, woken):
                return 0
        if woken:
            self._busy_until_s = now_s + _BUSY_S
        heartbeat = now_s >= self._heartbeat_at_s
        if not woken and not heartbeat:
            return 0
        if heartbeat:
            self._heartbeat_at_s = now_s + self._heartbeat_s
        return self._runner.run(calls.notifier_wake(woken, heartbeat=heartbeat))

    def _look(self, queues: Sequence[QueueIds], woken: list[str]) -> bool:
        """Add the queues whose listeners are to be woken; return whether this notifier leads."""
        sequences = [queue.id_sequence for queue in queues]
        pulse = self._runner.run(calls.notifier_pulse(self._number, self._standby_s, sequences))
        if not pulse.is_leader:
            if self._is_leader:
                _log.info("notifier: another one leads")
            self._step_down()
            return False
        if not self._is_leader:
            _log.info("notifier: this one leads")
            self._is_leader = True
            self._heartbeat_at_s = 0.0
        names = [queue.queue_name for queue in queues]
        wanted = self._readiness.wanted(names, pulse, time.monotonic())
        for part in _parts(wanted, _LOOKS_AT_ONCE) if wanted else ():
            found = self._runner.run(
                calls.notifier_look(
                    [want.queue_name for want in part],
                    [want.ready_after for want in part],
                    [want.due_after_s for want in part],
                )
            )
            looks = {look.queue_name: look for look in found}
            now_s = time.monotonic()
            woken += [
                want.queue_name
                for want in part
                if self._readiness.found(want, looks.get(want.queue_name), now_s)
            ]
        due_in_s = self._readiness.next_due_s(names) - pulse.server_time_s
        self._due_in_s = min(self._due_in_s, due_in_s)
        return True

    def _rest_s(self, began_s: float, now_s: float) -> float:
        """How long to wait after a round, seconds."""
        interval_s, share = self._poll_interval_s, _COST_SHARE
        if now_s < self._busy_until_s:
            interval_s, share = min(interval_s, _BUSY_INTERVAL_S), _BUSY_COST_SHARE
        if self._due_in_s > 0:  # what is overdue is being claimed right now, or locked
            interval_s = min(interval_s, self._due_in_s)
        return max(began_s + interval_s - now_s, (now_s - began_s) * (1 / share - 1))

    def _step_down(self) -> None:
        """Forget what was announced: should this one lead again, all that is there is new to it."""
        self._is_leader = False
        self._readiness = Readiness()
        self._refresh_at_s = 0.0


def _parts(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """The items in parts of at most this size; one empty part when there are none."""
    for begin in range(0, max(len(items), 1), size):
        yield items[begin : begin + size]
