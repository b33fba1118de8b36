# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""The methods of the work queue that limit what is claimed, and say in which order."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import limits
from pgsluice.client.limit_records import BlockedMessages, QueueLimits, WhenWaiting
from pgsluice.client.records import Message


class Limits:
    """Limits of concurrency and rate, order of keys, and priorities; a part of `WorkQueue`.

    They hold for `claim_messages`. The readers of PGMQ do not keep to them, but what these have in flight is counted.
    """

    _runner: Runner

    def claim_messages(
        self, queue_name: str, vt: int, qty: int = 1, *, worker: str | None = None
    ) -> list[Message]:
        """Claim visible messages, as far as the limits of the queue allow, and hide them for `vt` seconds.

        Args:
            queue_name: An existing queue; without limits this is `read`.
            vt: Seconds, 0 or more.
            qty: The most to claim, 1 or more.
            worker: Who claims; it changes nothing.

        Returns:
            0 to `qty` messages: lowest `msg_id` first, or with priorities the most urgent level first.

        Raises:
            ArgumentError: `vt` or `qty` is out of range.
            RetryableError: Somebody else has claimed from this queue in a transaction that stays open; the message
                names the session.
            ServerError: The transaction is not READ COMMITTED, and the queue has limits.

        Source: `sluice.claim_messages`.
        """
        return self._runner.run(limits.claim_messages(queue_name, vt, qty, worker))

    def next_room(self, queue_name: str) -> datetime | None:
        """Return when to claim again from a queue whose limits leave visible messages where they are.

        Returns:
            Of a rate, when it has room again; of concurrency, a moment from now, as nobody tells when a place becomes
            free. None: the limits are not what keeps messages.

        Source: `sluice.next_room`.
        """
        return self._runner.run(limits.next_room(queue_name))

    def set_queue_limits(
        self,
        queue_name: str,
        *,
        fleet_concurrency: int | None = None,
        key_concurrency: int | None = None,
        rate: int | None = None,
        rate_s: float = 1.0,
        when_waiting: WhenWaiting | None = None,
        priority_weights: Sequence[int] | None = None,
    ) -> None:
        """Let claims from a queue keep to these limits and this order, and to no others.

        Indexes are built for what is new; whoever sends or claims waits meanwhile. A queue has either priorities or
        limits of its keys.

        Args:
            queue_name: An existing queue.
            fleet_concurrency: So many may be in flight at once, in all processes, 1 or more; None: any number.
            key_concurrency: So many of one key may be in flight at once, 1 or more; None: any number. The key of a
                message is its header `x-pgmq-group`; one without it has no such limit.
            rate: So many may be claimed in any `rate_s` seconds, 1 or more; None: any number.
            rate_s: Seconds, more than 0.
            when_waiting: `block`, `skip` or `park`: messages of a key are claimed one after the other, and while one
                of it waits to be retried, nothing of the key is claimed, or the next ones are, or nothing is until
                `unpark_messages`. None: keys have no order.
            priority_weights: One for each of 2 to 9 levels, the most urgent first: how often it gets its turn while
                several have messages, 0 or more. The level of a message is its header `x-pgmq-priority`, from 1 on,
                else the middle one.

        Raises:
            ArgumentError: One is out of range. Nothing was changed.
            QueueNotFoundError: There is no such queue.
            ServerError: They contradict each other. Nothing was changed.

        Source: `sluice.set_queue_limits`.
        """
        self._runner.run(
            limits.set_queue_limits(
                queue_name,
                fleet_concurrency,
                key_concurrency,
                rate,
                rate_s,
                when_waiting,
                priority_weights,
            )
        )

    def drop_queue_limits(self, queue_name: str) -> bool:
        """Let claims from a queue have no limits and no order, and forget which keys were parked.

        Returns:
            False when it had none.

        Raises:
            QueueNotFoundError: There is no such queue.

        Source: `sluice.drop_queue_limits`.
        """
        return self._runner.run(limits.drop_queue_limits(queue_name))

    def list_queue_limits(self) -> list[QueueLimits]:
        """Return the limits of every queue that has some, by name, and how much of them is used.

        Source: `sluice.list_queue_limits`.
        """
        return self._runner.run(limits.list_queue_limits())

    def list_blocked_messages(self, queue_name: str) -> list[BlockedMessages]:
        """Return the keys of a queue whose visible messages wait, and for what, longest first.

        Raises:
            QueueNotFoundError: There is no such queue.

        Source: `sluice.list_blocked_messages`.
        """
        return self._runner.run(limits.list_blocked_messages(queue_name))

    def unpark_messages(self, queue_name: str, key: str) -> bool:
        """Let messages of a parked key be claimed again, in their order and from the one that waited on.

        Returns:
            False when it is not parked.

        Raises:
            QueueNotFoundError: There is no such queue.

        Source: `sluice.unpark_messages`.
        """
        return self._runner.run(limits.unpark_messages(queue_name, key))
