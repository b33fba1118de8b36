"""Which queues a notifier polls, and which listeners it wakes: decisions without I/O.

Times with the suffix `_s` alone are this process's monotonic clock; those of messages are the server's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from pgsluice.client.calls.listeners import Ends, Pulse, QueueIds, QueuePoll, Watch

_Position = TypeVar("_Position", int, float)

_NOTHING = Ends(None, None, None, None)
# Idle queues are polled too, for changes without a new sequence value: a send that commits late, a message released
# early, a claim rolled back. The interval grows with the idle time, up to the rest.
_QUIET_SHARE = 0.1
_REST_MIN_S = 1.0
# Minimum interval of these polls: sluice.notifier_pulse finds what a commit adds above the ids seen before.
_SOON_S = 0.005
# Time after a new sequence value for which its message may become visible at any time.
_PENDING_S = 1.0
# Maximum idle queues polled per round, so that they do not delay the others.
_IDLE_POLLS_MAX = 20
# Maximum shares of time: for polls of all idle queues, of one queue beyond its bounds, of one queue in full.
# Dead index entries make full polls expensive while a snapshot is held.
_REST_COST_SHARE = 0.1
_LOOK_COST_SHARE = 0.2
_WHOLE_COST_SHARE = 0.05
# Weight of the newest cost in a moving average. A busy machine may stop a single poll for a tenth of a second, and the
# pause after it must not be many times as long.
_COST_WEIGHT = 1 / 8
# Readable messages that are not claimed are notified again, as the listener woken before may have died.
_AGAIN_FIRST_S = 1.0
_AGAIN_MAX_S = 30.0


class QueueToPoll(NamedTuple):
    """A queue to poll, beyond an id and a time; None: in full."""

    queue_name: str
    ready_after: int | None = None
    due_after_s: float | None = None
    is_whole: bool = True


@dataclass(slots=True)
class _Queue:
    """Polling state of a queue.

    Attributes:
        ends: Result of the last full poll.
        ends_beyond: Result of the last poll beyond the bounds.
        ready_after: Bounds: the last id and the server's time before the last full poll.
        due_after_s: As `ready_after`.
        seen_id: The highest id of a ready message that was seen; None before the first poll.
        announced_id: The lowest id of the messages that the server announced last.
        moved_at_s: Time of the last new sequence value.
    """

    active_at_s: float
    last_id: int | None = None
    seen_id: int | None = None
    announced_id: int | None = None
    moved_at_s: float = -math.inf
    ends: Ends = _NOTHING
    ends_beyond: Ends = _NOTHING
    ready_after: int | None = None
    due_after_s: float | None = None
    next_due_s: float | None = None
    looked_at_s: float | None = None
    cost_beyond_s: float = 0.0
    whole_at_s: float | None = None
    whole_cost_s: float = 0.0
    again_at_s: float = 0.0
    again_after_s: float = _AGAIN_FIRST_S


class Readiness:
    """Tracks notifications, so that each change is notified once, and idle queues cost almost nothing."""

    def __init__(self) -> None:
        """Start without state: everything found first is new."""
        self._queues: dict[str, _Queue] = {}
        self._rest_s = _REST_MIN_S

    def follow(self, queue_names: Iterable[str], now_s: float) -> None:
        """Set the existing queues."""
        before = self._queues
        at_rest_s = now_s - _REST_MIN_S / _QUIET_SHARE
        self._queues = {name: before.get(name) or _Queue(at_rest_s) for name in queue_names}
        cost_s = sum(queue.whole_cost_s for queue in self._queues.values())
        self._rest_s = max(_REST_MIN_S, cost_s / _REST_COST_SHARE)

    def watches(self, queues: Iterable[QueueIds], now_s: float) -> list[Watch]:
        """Return what to wait for in these queues."""
        watches = []
        for ids in queues:
            queue = self._queues[ids.queue_name]
            is_pending = now_s - queue.moved_at_s < _PENDING_S
            watches.append(Watch(ids, queue.last_id, queue.seen_id, is_pending))
        return watches

    def next_poll_s(self, queue_names: Iterable[str]) -> float:
        """Return the time of the next poll of an idle queue, on the monotonic clock."""
        return min(
            (self._rested_at_s(self._queues[name]) for name in queue_names), default=math.inf
        )

    def announced(self, queue_names: Sequence[str], pulse: Pulse, now_s: float) -> bool:
        """Record what the server announced during the pulse; True if it announced anything."""
        if pulse.first_ready is None or pulse.last_ready is None:
            return False
        is_new = False
        for position, last_ready in enumerate(pulse.last_ready):
            if last_ready is None:
                continue
            queue = self._queues[queue_names[position]]
            ready = Ends(pulse.first_ready[position], last_ready, None, None)
            queue.ends = _union(queue.ends, ready)
            queue.ends_beyond = _union(queue.ends_beyond, ready)
            queue.seen_id, queue.announced_id = last_ready, ready.first_ready
            queue.looked_at_s = queue.active_at_s = now_s
            queue.again_at_s, queue.again_after_s = now_s + _AGAIN_FIRST_S, _AGAIN_FIRST_S * 2
            is_new = True
        return is_new

    def due(self, queue_names: Sequence[str], pulse: Pulse, now_s: float) -> list[QueueToPoll]:
        """Return the queues to poll now: all with expected changes, and some of the idle ones.

        Args:
            queue_names: In the order of the pulse's `last_ids`.
            pulse: Just read.
            now_s: The monotonic clock.
        """
        to_poll = []
        at_rest = []
        for position, name in enumerate(queue_names):
            queue = self._queues[name]
            last_id = queue.last_id if pulse.last_ids is None else pulse.last_ids[position]
            if last_id != queue.last_id:
                if last_id is not None and last_id < (queue.last_id or 0):
                    queue.seen_id = None  # another queue of this name
                queue.last_id = last_id
                queue.moved_at_s = now_s
                if pulse.last_ready is None or pulse.last_ready[position] is None:
                    queue.active_at_s = now_s
            if _is_expected(queue, pulse.server_time_s, now_s):
                to_poll.append((name, queue))
            elif self._is_rested(queue, now_s):
                at_rest.append((name, queue))
        at_rest.sort(key=lambda named: named[1].looked_at_s or 0.0)
        to_poll += at_rest[:_IDLE_POLLS_MAX]
        return [_poll(name, queue, pulse.server_time_s, now_s) for name, queue in to_poll]

    def found(self, due: QueueToPoll, poll: QueuePoll | None, now_s: float) -> bool:
        """Record the result of a poll.

        Args:
            due: Returned by `due` for this queue.
            poll: The result; None if the queue was locked or dropped.
            now_s: The monotonic clock.

        Returns:
            True if the queue's listeners are to be notified.
        """
        queue = self._queues[due.queue_name]
        queue.looked_at_s = now_s
        if poll is None:
            queue.next_due_s = None
            queue.whole_at_s = None
            return False
        if queue.seen_id is None:
            queue.seen_id = queue.last_id or 0
        if poll.ends.last_ready is not None:
            queue.seen_id = max(queue.seen_id, poll.ends.last_ready)
        if due.is_whole:
            queue.next_due_s = poll.next_due_s
            before, queue.ends, queue.ends_beyond = queue.ends, poll.ends, _NOTHING
            # Messages sent since the pulse are not announced again by the next poll.
            queue.ready_after = _later(queue.ready_after, poll.ends.last_ready)
            queue.due_after_s = _later(queue.due_after_s, poll.ends.last_due_s)
            queue.whole_at_s = now_s
            queue.whole_cost_s = averaged(queue.whole_cost_s or poll.cost_s, poll.cost_s)
        else:
            before, queue.ends_beyond = queue.ends_beyond, poll.ends
            queue.ends = _union(queue.ends, poll.ends)
            queue.cost_beyond_s = averaged(queue.cost_beyond_s or poll.cost_s, poll.cost_s)
        # The messages that the server announced may be all that is left.
        is_new = poll.ends not in (before, before._replace(first_ready=queue.announced_id))
        if is_new:
            queue.again_after_s = _AGAIN_FIRST_S
            if _is_more(poll.ends, before):
                queue.active_at_s = now_s
        is_readable = poll.ends.first_ready is not None or poll.ends.first_due_s is not None
        if not is_readable or not (is_new or now_s >= queue.again_at_s):
            return False
        queue.again_at_s = now_s + queue.again_after_s
        queue.again_after_s = min(_AGAIN_MAX_S, queue.again_after_s * 2)
        return True

    def next_due_s(self, queue_names: Iterable[str]) -> float:
        """Return the next due time of these queues, by the server's clock; infinite if none is known."""
        due_s = [self._queues[name].next_due_s for name in queue_names]
        return min((at_s for at_s in due_s if at_s is not None), default=math.inf)

    def _is_rested(self, queue: _Queue, now_s: float) -> bool:
        return now_s >= self._rested_at_s(queue)

    def _rested_at_s(self, queue: _Queue) -> float:
        """Return the time at which to poll an idle queue again."""
        if queue.looked_at_s is None:
            return -math.inf
        quiet_s = queue.looked_at_s - queue.active_at_s
        rest_s = max(_SOON_S, min(self._rest_s, quiet_s * _QUIET_SHARE / (1 - _QUIET_SHARE)))
        return queue.looked_at_s + max(rest_s, queue.cost_beyond_s / _LOOK_COST_SHARE)


def averaged(average_s: float, newest_s: float) -> float:
    """Return the moving average of durations with the newest one."""
    return average_s + (newest_s - average_s) * _COST_WEIGHT


def _is_more(ends: Ends, before: Ends) -> bool:
    """True if there are certainly further messages; else nearly always some have been claimed."""
    first, last, first_due_s, last_due_s = before
    return (
        (ends.first_ready is not None and (first is None or ends.first_ready < first))
        or (ends.last_ready is not None and (last is None or ends.last_ready > last))
        or (
            ends.first_due_s is not None and (first_due_s is None or ends.first_due_s < first_due_s)
        )
        or (ends.last_due_s is not None and (last_due_s is None or ends.last_due_s > last_due_s))
    )


def _union(ends: Ends, beyond: Ends) -> Ends:
    """Return the ends with those of messages that have higher ids or later due times."""
    return Ends(
        beyond.first_ready if ends.first_ready is None else ends.first_ready,
        _later(ends.last_ready, beyond.last_ready),
        beyond.first_due_s if ends.first_due_s is None else ends.first_due_s,
        _later(ends.last_due_s, beyond.last_due_s),
    )


def _later(first: _Position | None, second: _Position | None) -> _Position | None:
    """Return the greater of two ids or times."""
    if first is None or second is None:
        return second if first is None else first
    return max(first, second)


def _is_expected(queue: _Queue, server_time_s: float, now_s: float) -> bool:
    """True if new or due messages are certain."""
    if queue.looked_at_s is None:
        return True
    if _is_pausing(queue, now_s):
        return False
    is_due = queue.next_due_s is not None and queue.next_due_s <= server_time_s
    return is_due or queue.active_at_s > queue.looked_at_s


def _is_pausing(queue: _Queue, now_s: float) -> bool:
    looked_at_s = queue.looked_at_s or 0.0
    return now_s - looked_at_s < queue.cost_beyond_s / _LOOK_COST_SHARE


def _poll(name: str, queue: _Queue, server_time_s: float, now_s: float) -> QueueToPoll:
    if (
        queue.whole_at_s is None
        or now_s - queue.whole_at_s >= queue.whole_cost_s / _WHOLE_COST_SHARE
    ):
        queue.ready_after, queue.due_after_s = queue.last_id, server_time_s
        return QueueToPoll(name)
    return QueueToPoll(name, queue.ready_after, queue.due_after_s, is_whole=False)
