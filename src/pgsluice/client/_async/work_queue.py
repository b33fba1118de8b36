"""The work queue: schema `pgmq`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from pgsluice.client._async.archives import AsyncArchives
from pgsluice.client._async.claims import AsyncClaims
from pgsluice.client._async.groups import AsyncGroupReaders
from pgsluice.client._async.limits import AsyncLimits
from pgsluice.client._async.partitions import AsyncPartitions
from pgsluice.client._async.retries import AsyncRetries
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client._async.topics import AsyncTopics
from pgsluice.client.calls import deduplication, notify, pgmq
from pgsluice.client.records import (
    Message,
    NotifyThrottle,
    QueueInfo,
    QueueMetrics,
)


class AsyncWorkQueue(
    AsyncArchives,
    AsyncClaims,
    AsyncGroupReaders,
    AsyncLimits,
    AsyncPartitions,
    AsyncRetries,
    AsyncTopics,
):
    """Send, claim and acknowledge messages of work queues.

    Every method that works on one queue, but `create` and `create_unlogged`, raises QueueNotFoundError for a queue that
    does not exist, and every one can raise ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError.
    """

    def __init__(self, source: AsyncConnectionPool[Any] | AsyncConnection[Any]) -> None:
        """Use a pool or a connection.

        Args:
            source: A pool: each call is a transaction of its own, and claims commit asynchronously (one that a crash
                loses only leaves its message visible). A connection: each call is part of its transaction, and
                nothing is committed unless it is in autocommit mode. The caller opens and closes it.
        """
        self._runner = AsyncRunner(source)

    async def create(self, queue_name: str) -> None:
        """Create a queue and its archive; do nothing when it exists.

        Args:
            queue_name: 1 to 47 bytes; letters, digits and underscores are always safe. Upper and lower case name the
                same table.

        Raises:
            QueueNameError: The name is empty, has control characters, or would share its table with another queue.
            ServerError: The name is too long or has `$`, `;`, `--` or a quote.

        Source: PGMQ 1.13.0 `pgmq.create`; differences in sql/pgmq/README.md.
        """
        await self._runner.run(pgmq.create(queue_name))

    async def create_unlogged(self, queue_name: str) -> None:
        """Create an unlogged queue: faster, and empty after a crash, a failover, or a suspend of a server like Neon's.

        Its archive is logged and stays, and the ids go on. Does nothing when the queue exists, whatever its kind.

        Args:
            queue_name: As for `create`.

        Raises:
            QueueNameError: As for `create`.
            ServerError: As for `create`.

        Source: PGMQ 1.13.0 `pgmq.create_unlogged`; differences in sql/pgmq/README.md.
        """
        await self._runner.run(pgmq.create_unlogged(queue_name))

    async def drop_queue(self, queue_name: str) -> bool:
        """Drop a queue with its messages, its archive and its bindings to topics.

        Returns:
            True when it existed.

        Raises:
            QueueNameError: The table belongs to a queue whose name differs in case; it is named.

        Source: PGMQ 1.13.0 `pgmq.drop_queue`.
        """
        return await self._runner.run(pgmq.drop_queue(queue_name))

    async def list_queues(self) -> list[QueueInfo]:
        """Return every queue, by name.

        Source: PGMQ 1.13.0 `pgmq.list_queues`.
        """
        return await self._runner.run(pgmq.list_queues())

    async def purge_queue(self, queue_name: str) -> int:
        """Delete every message of a queue, visible or not, and leave its archive.

        Takes the table's exclusive lock: it waits for open readers, and others wait for it.

        Returns:
            How many there were.

        Source: PGMQ 1.13.0 `pgmq.purge_queue`.
        """
        return await self._runner.run(pgmq.purge_queue(queue_name))

    async def metrics(self, queue_name: str) -> QueueMetrics:
        """Return the state of one queue; counts every message.

        Source: PGMQ 1.13.0 `pgmq.metrics`.
        """
        return await self._runner.run(pgmq.metrics(queue_name))

    async def metrics_all(self) -> list[QueueMetrics]:
        """Return the state of every queue, by name.

        Source: PGMQ 1.13.0 `pgmq.metrics_all`.
        """
        return await self._runner.run(pgmq.metrics_all())

    async def send(
        self,
        queue_name: str,
        message: Any,
        *,
        headers: Any = None,
        delay: int | datetime | None = None,
        deduplication_key: str | None = None,
    ) -> int:
        """Append one message.

        Where the reply of the server is lost, the message may have been stored or not. Sent again with the same key, it
        is stored once.

        Args:
            queue_name: An existing queue.
            message: A JSON value: None (stored as SQL null), bool, int, finite float, str, list or dict.
            headers: A JSON object beside it, or None.
            delay: Seconds until it becomes visible, 0 or more, or the time when it does (with a time zone). None: at
                once.
            deduplication_key: 1 to 1,024 bytes: a message whose key was sent within the window of `set_deduplication`
                is not stored, whether the first one is still in the queue or not. None: stored in any case.

        Returns:
            Its msg_id, or that of the message that was first sent with its key.

        Raises:
            PayloadError: The message is not JSON that PostgreSQL can store; the place is named. Nothing was sent.
            ArgumentError: The delay is negative, not whole, or a time without a zone, or the key is too long. Nothing
                was sent.
            DeduplicationOffError: There is a key, and the queue has no window. Nothing was sent.
            RetryableError: In a transaction above READ COMMITTED, another one has sent the key at the same time.

        Source: PGMQ 1.13.0 `pgmq.send`; with a key `sluice.send`.
        """
        return await self._runner.run(
            deduplication.send(queue_name, message, headers, delay, deduplication_key)
        )

    async def send_batch(
        self,
        queue_name: str,
        messages: Sequence[Any],
        *,
        headers: Sequence[Any] | None = None,
        delay: int | datetime | None = None,
        deduplication_keys: Sequence[str | None] | None = None,
    ) -> list[int]:
        """Append messages in one statement: all or none.

        Args:
            queue_name: An existing queue.
            messages: One or more, each as for `send`.
            headers: One for each message, or None.
            delay: As for `send`, for all of them.
            deduplication_keys: One for each message, each as for `send`, or None. Of equal keys the first is stored.

        Returns:
            Their msg_ids, in the order of the messages; rising without keys.

        Raises:
            PayloadError: As for `send`; the position is named. Nothing was sent.
            ArgumentError: There are no messages, another number of headers or keys, or as for `send`. Nothing was sent.
            DeduplicationOffError: As for `send`.
            RetryableError: As for `send`.

        Source: PGMQ 1.13.0 `pgmq.send_batch`; with keys `sluice.send_batch`.
        """
        return await self._runner.run(
            deduplication.send_batch(queue_name, messages, headers, delay, deduplication_keys)
        )

    async def set_deduplication(self, queue_name: str, window: timedelta | None) -> None:
        """Let a queue know the deduplication keys of what is sent.

        Args:
            queue_name: An existing queue.
            window: How long a key is known, from its sending on; that of keys sent before stays. None: the queue takes
                no keys any more, and forgets those it knew.

        Raises:
            ArgumentError: The window is not positive.

        Source: `sluice.set_deduplication`.
        """
        await self._runner.run(deduplication.set_deduplication(queue_name, window))

    async def read(
        self,
        queue_name: str,
        vt: int,
        qty: int = 1,
        *,
        conditional: dict[str, Any] | None = None,
    ) -> list[Message]:
        """Claim up to `qty` visible messages and hide them for `vt` seconds.

        Delivery is at least once: a message that is neither archived nor deleted becomes visible again.

        Args:
            queue_name: An existing queue.
            vt: Visibility timeout, seconds, 0 or more; with 0 another reader may take them too.
            qty: The most to claim, 1 or more.
            conditional: Only messages that contain this JSON object (`message @> conditional`).

        Returns:
            0 to `qty` messages, lowest `msg_id` first. Empty when none is visible; never waits.

        Raises:
            ArgumentError: `vt` or `qty` is out of range. Nothing was claimed.

        Source: PGMQ 1.13.0 `pgmq.read`; differences in sql/pgmq/README.md.
        """
        return await self._runner.run(pgmq.read(queue_name, vt, qty, conditional))

    async def read_with_poll(
        self,
        queue_name: str,
        vt: int,
        qty: int = 1,
        *,
        max_poll_seconds: int = 5,
        poll_interval_ms: int = 100,
        conditional: dict[str, Any] | None = None,
    ) -> list[Message]:
        """Claim as `read` does, and wait in the server while nothing is visible.

        The connection is taken for the whole wait, and its open statement keeps VACUUM from cleaning up behind it: keep
        the waits short. In a REPEATABLE READ transaction it does not see what is sent meanwhile.

        Args:
            queue_name: An existing queue.
            vt: As for `read`.
            qty: As for `read`.
            max_poll_seconds: The longest wait, seconds, 1 or more.
            poll_interval_ms: The pause between two looks, milliseconds, 1 or more.
            conditional: As for `read`.

        Returns:
            1 to `qty` messages as soon as there are any, lowest `msg_id` first; empty when the time is over.

        Raises:
            ArgumentError: A number is out of range. Nothing was claimed.

        Source: PGMQ 1.13.0 `pgmq.read_with_poll`; differences in sql/pgmq/README.md.
        """
        return await self._runner.run(
            pgmq.read_with_poll(
                queue_name, vt, qty, max_poll_seconds, poll_interval_ms, conditional
            )
        )

    async def pop(self, queue_name: str, qty: int = 1) -> list[Message]:
        """Take up to `qty` visible messages and delete them at once.

        At most once: what the caller does not finish is gone, unless this runs in its transaction and that rolls
        back.

        Returns:
            0 to `qty` messages, lowest `msg_id` first.

        Raises:
            ArgumentError: `qty` is out of range. Nothing was taken.

        Source: PGMQ 1.13.0 `pgmq.pop`.
        """
        return await self._runner.run(pgmq.pop(queue_name, qty))

    async def delete(self, queue_name: str, msg_id: int) -> bool:
        """Delete one message for good, whoever holds it.

        Returns:
            False when it is not in the queue.

        Source: PGMQ 1.13.0 `pgmq.delete`.
        """
        return await self._runner.run(pgmq.delete(queue_name, msg_id))

    async def delete_batch(self, queue_name: str, msg_ids: Sequence[int]) -> list[int]:
        """Delete messages for good, whoever holds them.

        Returns:
            The msg_ids that were in the queue, lowest first, each once.

        Source: PGMQ 1.13.0 `pgmq.delete`.
        """
        return await self._runner.run(pgmq.delete_batch(queue_name, msg_ids))

    async def archive(self, queue_name: str, msg_id: int) -> bool:
        """Move one message into the queue's archive, whoever holds it.

        Returns:
            False when it is not in the queue.

        Source: PGMQ 1.13.0 `pgmq.archive`.
        """
        return await self._runner.run(pgmq.archive(queue_name, msg_id))

    async def archive_batch(self, queue_name: str, msg_ids: Sequence[int]) -> list[int]:
        """Move messages into the queue's archive, whoever holds them.

        Returns:
            The msg_ids that were in the queue, lowest first, each once.

        Source: PGMQ 1.13.0 `pgmq.archive`.
        """
        return await self._runner.run(pgmq.archive_batch(queue_name, msg_ids))

    async def set_vt(self, queue_name: str, msg_id: int, vt: int | datetime) -> Message | None:
        """Change when one message becomes visible, whoever holds it.

        Args:
            queue_name: An existing queue.
            msg_id: The message.
            vt: Seconds from now, 0 or more, or a time with a time zone.

        Returns:
            The message as it is now, or None when it is not in the queue.

        Raises:
            ArgumentError: `vt` is negative, not whole, or a time without a zone.

        Source: PGMQ 1.13.0 `pgmq.set_vt`.
        """
        return await self._runner.run(pgmq.set_vt(queue_name, msg_id, vt))

    async def set_vt_batch(
        self, queue_name: str, msg_ids: Sequence[int], vt: int | datetime
    ) -> list[Message]:
        """Change when messages become visible, whoever holds them.

        Returns:
            Those that were in the queue, as they are now, lowest `msg_id` first, each once.

        Raises:
            ArgumentError: As for `set_vt`.

        Source: PGMQ 1.13.0 `pgmq.set_vt`.
        """
        return await self._runner.run(pgmq.set_vt_batch(queue_name, msg_ids, vt))

    async def enable_notify_insert(
        self, queue_name: str, *, throttle_interval_ms: int = 250
    ) -> None:
        """Notify listeners of new messages, when they are committed; enabled again, it only sets the interval.

        Listen on `pgmq.q_<name in lower case>.INSERT`, or on the same with the name as it was created; the payload is
        empty. A notification says: look again. It may be missing (a message sent less than an interval after the last
        notification has none of its own, one that becomes visible later has none at that time, and none is sent while
        the server's queue of notifications is half full), and it may come twice. So a listener reads until the queue
        is empty, again one interval later, and from time to time without any notification.

        The first time, it waits for open transactions that send to the queue, and new ones wait for it.

        Args:
            queue_name: An existing queue, in the upper and lower case of its creation.
            throttle_interval_ms: Milliseconds between two notifications, at least; 0: every statement that sends
                notifies.

        Raises:
            ArgumentError: The interval is negative or not whole.
            ServerError: The queue does not exist, or not in this spelling.

        Source: PGMQ 1.13.0 `pgmq.enable_notify_insert`; differences in sql/pgmq/README.md.
        """
        await self._runner.run(notify.enable_notify_insert(queue_name, throttle_interval_ms))

    async def disable_notify_insert(self, queue_name: str) -> None:
        """Notify nobody of new messages any more; do nothing when nobody was, or when the queue does not exist.

        It waits for open transactions that use the queue, and others wait for it.

        Source: PGMQ 1.13.0 `pgmq.disable_notify_insert`.
        """
        await self._runner.run(notify.disable_notify_insert(queue_name))

    async def update_notify_insert(self, queue_name: str, *, throttle_interval_ms: int) -> None:
        """Change how often listeners are notified at most, without a lock on the queue; the next message notifies.

        Args:
            queue_name: A queue that notifies, in the upper and lower case of its creation.
            throttle_interval_ms: As for `enable_notify_insert`.

        Raises:
            ArgumentError: The interval is negative or not whole.
            ServerError: The queue does not exist, or does not notify; the message says which.

        Source: PGMQ 1.13.0 `pgmq.update_notify_insert`.
        """
        await self._runner.run(notify.update_notify_insert(queue_name, throttle_interval_ms))

    async def list_notify_insert_throttles(self) -> list[NotifyThrottle]:
        """Return every queue that notifies, by name.

        Source: PGMQ 1.13.0 `pgmq.list_notify_insert_throttles`.
        """
        return await self._runner.run(notify.list_notify_insert_throttles())
