"""Where a notifier looks, and whom it wakes: decisions without I/O.

Times that end in `_s` without more are this process's monotonic clock; those of messages are the server's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pgsluice.client.calls.listeners import Ends, Look, Pulse

_NOTHING = Ends(None, None, None, None)
# A queue in which nothing happens is looked at all the same, for what no sequence tells: a send that commits late, a
# message given back early, a claim rolled back. The pause grows with the quiet before it, up to the rest.
_QUIET_SHARE = 0.1
_REST_MIN_S = 1.0
# And at most so many of them in a round, so that no other queue waits for them.
_RESTING_LOOKS_MAX = 20
# Of the time, at most: for looks at all the queues at rest, at one queue from its bounds on, at one queue from
# its beginning on. The last are what dead entries make expensive while a snapshot is held.
_REST_COST_SHARE = 0.1
_LOOK_COST_SHARE = 0.2
_WHOLE_COST_SHARE = 0.05
# What is there to read, and nobody takes it, is announced again: whoever was woken may have died since.
_AGAIN_FIRST_S = 1.0
_AGAIN_MAX_S = 30.0


class Wanted(NamedTuple):
    """A queue to look at, beyond this id and this time; None: from its beginning on."""

    queue_name: str
    ready_after: int | None = None
    due_after_s: float | None = None
    is_whole: bool = True


@dataclass(slots=True)
class _Queue:
    """What is known of a queue.

    Attributes:
        ends: What the last look from the beginning found.
        ends_beyond: What the last look from the bounds on has found since.
        ready_after: The bounds: the last id, and the server's time, before the last look from the beginning.
        due_after_s: As `ready_after`.
    """

    active_at_s: float
    last_id: int | None = None
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
    """Remembers what was announced, so that each thing is announced once, and the quiet queues cost next to nothing."""

    def __init__(self) -> None:
        """Know nothing yet: what is there at the first look is new."""
        self._queues: dict[str, _Queue] = {}
        self._rest_s = _REST_MIN_S

    def follow(self, queue_names: Iterable[str], now_s: float) -> None:
        """Take these queues for the ones there are."""
        before = self._queues
        at_rest_s = now_s - _REST_MIN_S / _QUIET_SHARE
        self._queues = {name: before.get(name) or _Queue(at_rest_s) for name in queue_names}
        cost_s = sum(queue.whole_cost_s for queue in self._queues.values())
        self._rest_s = max(_REST_MIN_S, cost_s / _REST_COST_SHARE)

    def wanted(self, queue_names: Sequence[str], pulse: Pulse, now_s: float) -> list[Wanted]:
        """Return which of these queues to look at now: all in which something is expected, and some of the others.

        Args:
            queue_names: In the order of the pulse's `last_ids`.
            pulse: Read a moment ago.
            now_s: The monotonic clock.
        """
        looked_for = []
        at_rest = []
        for position, name in enumerate(queue_names):
            queue = self._queues[name]
            last_id = queue.last_id if pulse.last_ids is None else pulse.last_ids[position]
            if last_id != queue.last_id:
                queue.last_id = last_id
                queue.active_at_s = now_s
            if _is_expected(queue, pulse.server_time_s, now_s):
                looked_for.append((name, queue))
            elif self._is_rested(queue, now_s):
                at_rest.append((name, queue))
        at_rest.sort(key=lambda named: named[1].looked_at_s or 0.0)
        looked_for += at_rest[:_RESTING_LOOKS_MAX]
        return [_look(name, queue, pulse.server_time_s, now_s) for name, queue in looked_for]

    def found(self, wanted: Wanted, look: Look | None, now_s: float) -> bool:
        """Take note of a look.

        Args:
            wanted: What `wanted` returned for this queue.
            look: What was found; None when the queue was locked or gone.
            now_s: The monotonic clock.

        Returns:
            Whether to wake the queue's listeners.
        """
        queue = self._queues[wanted.queue_name]
        queue.looked_at_s = now_s
        if look is None:
            queue.next_due_s = None
            queue.whole_at_s = None
            return False
        if wanted.is_whole:
            queue.next_due_s = look.next_due_s
            is_new = look.ends != queue.ends
            queue.ends, queue.ends_beyond = look.ends, _NOTHING
            queue.whole_at_s, queue.whole_cost_s = now_s, look.cost_s
        else:
            is_new = look.ends != queue.ends_beyond
            queue.ends_beyond, queue.cost_beyond_s = look.ends, look.cost_s
        if is_new:
            queue.active_at_s = now_s
            queue.again_after_s = _AGAIN_FIRST_S
        is_readable = look.ends.first_ready is not None or look.ends.first_due_s is not None
        if not is_readable or not (is_new or now_s >= queue.again_at_s):
            return False
        queue.again_at_s = now_s + queue.again_after_s
        queue.again_after_s = min(_AGAIN_MAX_S, queue.again_after_s * 2)
        return True

    def next_due_s(self, queue_names: Iterable[str]) -> float:
        """When the next message of one of these queues becomes due, by the server's clock; infinite: none is known."""
        due_s = [self._queues[name].next_due_s for name in queue_names]
        return min((at_s for at_s in due_s if at_s is not None), default=math.inf)

    def _is_rested(self, queue: _Queue, now_s: float) -> bool:
        if queue.looked_at_s is None or _is_pausing(queue, now_s):
            return False
        quiet_s = now_s - queue.active_at_s
        return now_s - queue.looked_at_s >= min(self._rest_s, quiet_s * _QUIET_SHARE)


def _is_expected(queue: _Queue, server_time_s: float, now_s: float) -> bool:
    """Whether something is sure to have begun, or to be due."""
    if queue.looked_at_s is None:
        return True
    if _is_pausing(queue, now_s):
        return False
    is_due = queue.next_due_s is not None and queue.next_due_s <= server_time_s
    return is_due or queue.active_at_s > queue.looked_at_s


def _is_pausing(queue: _Queue, now_s: float) -> bool:
    looked_at_s = queue.looked_at_s or 0.0
    return now_s - looked_at_s < queue.cost_beyond_s / _LOOK_COST_SHARE


def _look(name: str, queue: _Queue, server_time_s: float, now_s: float) -> Wanted:
    if (
        queue.whole_at_s is None
        or now_s - queue.whole_at_s >= queue.whole_cost_s / _WHOLE_COST_SHARE
    ):
        queue.ready_after, queue.due_after_s = queue.last_id, server_time_s
        return Wanted(name)
    return Wanted(name, queue.ready_after, queue.due_after_s, is_whole=False)
