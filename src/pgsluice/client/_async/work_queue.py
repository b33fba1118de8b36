# Generated from client/calls by tools/clients_from_calls.py: change it there, then `make generate`.
"""`AsyncWorkQueue`: its methods run the calls."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pgsluice.client import calls
from pgsluice.client._async.shard_runner import AsyncSharded
from pgsluice.client.sources import AsyncConnectable
from pgsluice.shards.pool import ShardPool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import Any, Unpack

    from pgsluice.client.calls.successors import AfterFailure
    from pgsluice.client.records import (
        ClaimOutcome,
        Message,
        QueueInfo,
        QueueMetrics,
        RoutingMatch,
        StoredMessage,
        TopicBinding,
    )
    from pgsluice.client.retry_records import FailedMessage
    from pgsluice.client.settings_records import Change, QueueOptions, QueueSettings
    from pgsluice.client.unique import Unique


class AsyncWorkQueue(AsyncSharded):
    """Send, read and acknowledge messages of work queues.

    Methods on one queue, except `create` and `create_unlogged`, raise QueueNotFoundError if the queue does not exist.
    All methods can raise ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError.
    """

    def __init__(self, source: AsyncConnectable | ShardPool) -> None:
        """Use a pool or a connection.

        Args:
            source: With a pool, each call is a transaction of its own, and reads commit asynchronously (a crash that
                loses one only leaves its message visible). With a connection, each call runs in the caller's
                transaction, and commits only in autocommit mode. A session or connection of SQLAlchemy or Django stands
                for the psycopg connection of its transaction. The caller opens and closes it. With a `ShardPool`,
                choose a database with `at`.
        """
        super().__init__(source)

    async def create(
        self, queue_name: str, *, archive_retention: timedelta | None = timedelta(days=7)
    ) -> bool:
        """Create a queue and its archive; do nothing if it exists.

        Args:
            queue_name: 1 to 47 bytes; letters, digits and underscores are always safe. Names that differ only in case
                share a table.
            archive_retention: Maintenance deletes archived messages that are older. None: never, as PGMQ does. The
                option of a queue that exists is kept; `set_queue_options` changes it.

        Returns:
            True if the queue did not exist.

        Raises:
            QueueNameError: The name is empty, contains control characters, or would share its table with another queue.
            ServerError: The name is too long or has `$`, `;`, `--` or a quote.

        Source: `sluice.create_queue`; PGMQ 1.13.0 `pgmq.create`, differences in sql/pgmq/README.md.
        """
        return await self._runner.run(
            calls.pgmq.create(queue_name, archive_retention=archive_retention)
        )

    async def send(
        self,
        queue_name: str,
        message: Any,
        *,
        headers: Any = None,
        delay: int | datetime | None = None,
        deduplication_key: str | None = None,
        unique: Unique | None = None,
        after: Mapping[str, Sequence[int]] | None = None,
        after_failure: AfterFailure | None = None,
    ) -> int:
        """Send one message.

        If the connection is lost before the reply, it is unknown whether the message was stored. Send it again with the
        same key to store it once.

        Args:
            queue_name: An existing queue.
            message: A JSON value: None (stored as SQL null), bool, int, finite float, str, list or dict. Dataclasses,
                Pydantic models, enums, datetime, date, time, UUID and Decimal, also inside of it, are converted as a
                handler's `send` converts them.
            headers: A JSON object sent with the message, or None.
            delay: Seconds until the message becomes visible, 0 or more, or the time when it becomes visible (with a
                time zone). None: immediately.
            deduplication_key: 1 to 1,024 bytes. A message whose key is known is not stored: sent within the
                `deduplication_window` of the queue, even if the first message has left the queue, or as `unique` says.
                None: no deduplication.
            unique: Lifetime of the key and effect of a duplicate, for this message. None: those of the queue.
            after: msg_ids of messages to wait for, by queue: the message becomes visible when all of them have left
                their queues other than as dead letters. `Operations.enable_successors` must have been called for these
                queues. The transaction of this call locks the messages. Not together with a deduplication key. None: of
                no message.
            after_failure: If one of `after` is dead-lettered: `fail`, the default: dead-letter this message too, with
                the reason, and so on for those that wait for it; `continue`: wait for the others, then run it.

        Returns:
            The msg_id; for a duplicate, that of the first message with this key.

        Raises:
            PayloadError: The message is not JSON that PostgreSQL can store; the error names the path. Nothing was sent.
            ArgumentError: The delay is negative, not whole, or a time without a zone; the key is too long; or a
                dataclass or model has a type that cannot be converted. Nothing was sent.
            DeduplicationOffError: A key is given without `unique`, and the queue has no deduplication. Nothing was
                sent.
            RetryableError: In a transaction above READ COMMITTED, another transaction has sent the same key
                concurrently.
            ServerError: `enable_successors` was not called for a queue of `after`.
            PrivilegeError: The role may neither send to nor read a queue of `after`.

        Source: PGMQ 1.13.0 `pgmq.send`; with a key `sluice.send`, with `after` `sluice.send_after`.
        """
        return await self._runner.run(
            calls.deduplication.send(
                queue_name,
                message,
                headers=headers,
                delay=delay,
                deduplication_key=deduplication_key,
                unique=unique,
                after=after,
                after_failure=after_failure,
            )
        )

    async def send_batch(
        self,
        queue_name: str,
        messages: Sequence[Any],
        *,
        headers: Sequence[Any] | None = None,
        delay: int | datetime | None = None,
        deduplication_keys: Sequence[str | None] | None = None,
        unique: Unique | None = None,
    ) -> list[int]:
        """Send messages in one statement: all or none.

        Args:
            queue_name: An existing queue.
            messages: One or more, each as for `send`.
            headers: One JSON object or None for each message, or None.
            delay: As for `send`, for all messages.
            deduplication_keys: One for each message, as for `send`, or None. Of equal keys, the first is stored.
            unique: As for `send`, for all messages with a key.

        Returns:
            The msg_ids, in the order of the messages; ascending without keys.

        Raises:
            PayloadError: As for `send`; the error names the position. Nothing was sent.
            ArgumentError: There are no messages, the number of headers or keys differs, or as for `send`. Nothing was
                sent.
            DeduplicationOffError: As for `send`.
            RetryableError: As for `send`.

        Source: PGMQ 1.13.0 `pgmq.send_batch`; with keys `sluice.send_batch`.
        """
        return await self._runner.run(
            calls.deduplication.send_batch(
                queue_name,
                messages,
                headers=headers,
                delay=delay,
                deduplication_keys=deduplication_keys,
                unique=unique,
            )
        )

    async def read(
        self,
        queue_name: str,
        vt: int = 30,
        qty: int = 1,
        *,
        conditional: dict[str, Any] | None = None,
    ) -> list[Message]:
        """Read up to `qty` visible messages and hide them for `vt` seconds.

        Delivery is at least once: a message that is neither archived nor deleted is redelivered after its visibility
        timeout. Cancelling an async read after the server has committed it, on a pool or in autocommit mode, loses its
        result: the messages are hidden for `vt` seconds. In the caller's transaction a rollback makes them visible.

        Args:
            queue_name: An existing queue.
            vt: Visibility timeout in seconds, 0 or more; with 0, other readers can read the same messages. Set it above
                the time that handling takes.
            qty: The most to read, 1 or more.
            conditional: Only messages that contain this JSON object (`message @> conditional`).

        Returns:
            0 to `qty` messages, lowest `msg_id` first. Empty if none is visible; never waits.

        Raises:
            ArgumentError: `vt` or `qty` is out of range. Nothing was read.

        Source: PGMQ 1.13.0 `pgmq.read`; differences in sql/pgmq/README.md.
        """
        return await self._runner.run(
            calls.reading.read(queue_name, vt, qty, conditional=conditional)
        )

    async def read_with_poll(
        self,
        queue_name: str,
        vt: int = 30,
        qty: int = 1,
        *,
        max_poll_seconds: int = 5,
        poll_interval_ms: int = 100,
        conditional: dict[str, Any] | None = None,
    ) -> list[Message]:
        """Read as `read` does, and wait in the server while no message is visible.

        The connection is occupied during the wait, and its open statement holds back the xmin horizon of VACUUM: keep
        the wait short. A REPEATABLE READ transaction does not see messages sent during the wait.

        Args:
            queue_name: An existing queue.
            vt: As for `read`.
            qty: As for `read`.
            max_poll_seconds: The longest wait in seconds, 1 or more.
            poll_interval_ms: Poll interval in milliseconds, 1 or more.
            conditional: As for `read`.

        Returns:
            1 to `qty` messages as soon as any is visible, lowest `msg_id` first; empty after `max_poll_seconds` without
            messages.

        Raises:
            ArgumentError: A number is out of range. Nothing was read.

        Source: PGMQ 1.13.0 `pgmq.read_with_poll`; differences in sql/pgmq/README.md.
        """
        return await self._runner.run(
            calls.reading.read_with_poll(
                queue_name,
                vt,
                qty,
                max_poll_seconds=max_poll_seconds,
                poll_interval_ms=poll_interval_ms,
                conditional=conditional,
            )
        )

    async def pop(self, queue_name: str, qty: int = 1) -> list[Message]:
        """Read up to `qty` visible messages and delete them immediately.

        Delivery is at most once: messages that the caller does not finish are lost, unless this runs in the caller's
        transaction and that is rolled back. An async call that is cancelled on a pool or in autocommit mode may have
        deleted messages that it does not return; pop within a transaction, or `read` and `delete`, to lose none.

        Returns:
            0 to `qty` messages, lowest `msg_id` first.

        Raises:
            ArgumentError: `qty` is out of range. Nothing was read.

        Source: PGMQ 1.13.0 `pgmq.pop`.
        """
        return await self._runner.run(calls.reading.pop(queue_name, qty))

    async def delete(self, queue_name: str, msg_id: int) -> bool:
        """Delete one message, even if another reader holds it: this cancels it (see `Handler.cancel`).

        Returns:
            False when the message is not in the queue.

        Source: PGMQ 1.13.0 `pgmq.delete`.
        """
        return await self._runner.run(calls.reading.delete(queue_name, msg_id))

    async def delete_batch(self, queue_name: str, msg_ids: Sequence[int]) -> list[int]:
        """Delete messages, even if other readers hold them.

        Returns:
            The msg_ids found in the queue, lowest first, each once.

        Source: PGMQ 1.13.0 `pgmq.delete`.
        """
        return await self._runner.run(calls.reading.delete_batch(queue_name, msg_ids))

    async def archive(self, queue_name: str, msg_id: int) -> bool:
        """Move one message into the queue's archive, even if another reader holds it.

        Returns:
            False when the message is not in the queue.

        Source: PGMQ 1.13.0 `pgmq.archive`.
        """
        return await self._runner.run(calls.reading.archive(queue_name, msg_id))

    async def archive_batch(self, queue_name: str, msg_ids: Sequence[int]) -> list[int]:
        """Move messages into the queue's archive, even if other readers hold them.

        Returns:
            The msg_ids found in the queue, lowest first, each once.

        Source: PGMQ 1.13.0 `pgmq.archive`.
        """
        return await self._runner.run(calls.reading.archive_batch(queue_name, msg_ids))

    async def set_vt(self, queue_name: str, msg_id: int, vt: int | datetime) -> Message | None:
        """Change the visibility timeout of one message, even if another reader holds it.

        Args:
            queue_name: An existing queue.
            msg_id: The message.
            vt: Seconds from now, 0 or more, or a time with a time zone.

        Returns:
            The updated message, or None if it is not in the queue.

        Raises:
            ArgumentError: `vt` is negative, not whole, or a time without a zone.

        Source: PGMQ 1.13.0 `pgmq.set_vt`.
        """
        return await self._runner.run(calls.reading.set_vt(queue_name, msg_id, vt))

    async def set_vt_batch(
        self, queue_name: str, msg_ids: Sequence[int], vt: int | datetime
    ) -> list[Message]:
        """Change the visibility timeout of messages, even if other readers hold them.

        Returns:
            The updated messages that were in the queue, lowest `msg_id` first, each once.

        Raises:
            ArgumentError: As for `set_vt`.

        Source: PGMQ 1.13.0 `pgmq.set_vt`.
        """
        return await self._runner.run(calls.reading.set_vt_batch(queue_name, msg_ids, vt))

    async def delete_claimed(
        self, queue_name: str, messages: Sequence[Message]
    ) -> list[ClaimOutcome]:
        """Delete messages whose claim is still current.

        Args:
            queue_name: An existing queue.
            messages: As returned by the read, in any order. A message of a queue that was dropped and created again has
                the outcome `gone`, because its `enqueued_at` differs.

        Returns:
            The outcome of each message, in the order given. Messages with a stale claim are not changed.

        Source: `sluice.delete`.
        """
        return await self._runner.run(calls.claims.delete(queue_name, messages))

    async def archive_claimed(
        self, queue_name: str, messages: Sequence[Message]
    ) -> list[ClaimOutcome]:
        """Move messages whose claim is still current into the queue's archive.

        Args:
            queue_name: An existing queue.
            messages: As for `delete_claimed`.

        Returns:
            As for `delete_claimed`.

        Source: `sluice.archive`.
        """
        return await self._runner.run(calls.claims.archive(queue_name, messages))

    async def extend_claimed(
        self, queue_name: str, messages: Sequence[Message], vt: int
    ) -> list[ClaimOutcome]:
        """Set the visibility timeout of messages whose claim is still current to `vt` seconds from now.

        Args:
            queue_name: An existing queue.
            messages: As for `delete_claimed`.
            vt: Seconds, 0 or more.

        Returns:
            As for `delete_claimed`.

        Raises:
            ArgumentError: `vt` is out of range. Nothing was changed.

        Source: `sluice.extend`.
        """
        return await self._runner.run(calls.claims.extend(queue_name, messages, vt))

    async def release_claimed(
        self, queue_name: str, messages: Sequence[Message], *, delay: int = 0
    ) -> list[ClaimOutcome]:
        """Return messages whose claim is still current to the queue.

        Args:
            queue_name: An existing queue.
            messages: As for `delete_claimed`.
            delay: Seconds until the messages become visible, 0 or more.

        Returns:
            As for `delete_claimed`.

        Raises:
            ArgumentError: `delay` is out of range. Nothing was changed.

        Source: `sluice.release`.
        """
        return await self._runner.run(calls.claims.release_batch(queue_name, messages, delay=delay))

    async def release(
        self,
        queue_name: str,
        msg_id: int,
        read_ct: int,
        *,
        delay: int = 0,
        enqueued_at: datetime | None = None,
    ) -> bool:
        """Return a message to the queue if its claim is still current.

        Args:
            queue_name: An existing queue.
            msg_id: The message.
            read_ct: As returned by the read; `msg_id` and `read_ct` are the fencing token.
            delay: Seconds until the message becomes visible, 0 or more.
            enqueued_at: As returned by the read; it differs in a queue that was dropped and created again. None: not
                compared.

        Returns:
            False when the message was read again, archived or deleted since. Then nothing was changed.

        Source: `sluice.release`.
        """
        return await self._runner.run(
            calls.claims.release(queue_name, msg_id, read_ct, delay=delay, enqueued_at=enqueued_at)
        )

    async def reject(
        self,
        queue_name: str,
        msg_id: int,
        read_ct: int,
        reason: str,
        error: str | None = None,
        *,
        enqueued_at: datetime | None = None,
    ) -> bool:
        """Dead-letter a message if its claim is still current.

        Args:
            queue_name: An existing queue.
            msg_id: The message.
            read_ct: As returned by the read; `msg_id` and `read_ct` are the fencing token.
            reason: Reason in a word or two.
            error: The error with its traceback, or None. NULs and lone surrogates, also in `reason`, are escaped.
            enqueued_at: As for `release`.

        Returns:
            False when the message was read again, archived or deleted since. Then nothing was changed.

        Source: `sluice.reject`.
        """
        return await self._runner.run(
            calls.claims.reject(queue_name, msg_id, read_ct, reason, error, enqueued_at=enqueued_at)
        )

    async def fail(
        self,
        queue_name: str,
        failures: Sequence[FailedMessage],
        *,
        worker: str | None = None,
        policy: dict[str, Any] | None = None,
    ) -> list[ClaimOutcome]:
        """Settle messages whose handlers failed: each is retried after a back-off or dead-lettered.

        Idempotent for a claim: a repetition after a lost reply changes nothing and returns the first result.

        Args:
            queue_name: An existing queue.
            failures: The failed messages and their errors, in any order. Characters that PostgreSQL cannot store are
                escaped.
            worker: Name of the worker, stored with the message.
            policy: Overrides of the queue's policy: `max_attempts`, `backoff`, `backoff_base` and `backoff_max`
                (seconds), `backoff_jitter`, `backoff_factor`.

        Returns:
            The outcome of each message, in the order given.

        Raises:
            ArgumentError: A delay is out of range, or the policy is invalid. Nothing was changed.

        Source: `sluice.fail`.
        """
        return await self._runner.run(
            calls.retries.fail(queue_name, failures, worker=worker, policy=policy)
        )

    async def lock_messages(
        self, queue_name: str, messages: Sequence[Message]
    ) -> list[ClaimOutcome]:
        """Lock messages against reads until the end of the transaction, even after their visibility timeout.

        On a pool, where each call is a transaction of its own, this only checks which claims are current.

        Args:
            queue_name: An existing queue.
            messages: As returned by the read, in any order.

        Returns:
            The outcome of each message, in the order given; `done`: locked.

        Source: `sluice.lock_messages`.
        """
        return await self._runner.run(calls.retries.lock_messages(queue_name, messages))

    async def browse(
        self,
        queue_name: str,
        relation: str = "queue",
        *,
        after_msg_id: int | None = None,
        qty: int = 100,
        conditional: dict[str, Any] | None = None,
        conditional_headers: dict[str, Any] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        matching: str | None = None,
    ) -> list[StoredMessage]:
        """Return a page of the messages of a queue without reading them: visibility timeouts stay as they are.

        Pass the last `msg_id` of a page as `after_msg_id` of the next. A transaction that commits late, or a late
        archive, can still add messages with lower ids. A filter also scans the messages that it skips.

        Args:
            queue_name: An existing queue.
            relation: `queue`, `archive`, `dead letters`, or `all` of them.
            after_msg_id: Only messages with a higher msg_id; None: start at the first.
            qty: The most to return, 1 or more.
            conditional: Only messages that contain this JSON object (`message @> conditional`).
            conditional_headers: Only messages whose headers contain this JSON object.
            since: Only messages sent at this time or later, or with relation `archive` archived, with a time zone.
            until: Only messages sent, or archived, before this time, with a time zone.
            matching: Only messages with this msg_id or key, or with this text in the payload or the headers, in upper
                or lower case; a JSON object or array is contained in the payload or the headers.

        Returns:
            0 to `qty` messages, lowest `msg_id` first; fewer than `qty`: this is the last page. Dead letters of a queue
            that was dropped and created again may repeat ids; a page has all of the same id, also beyond `qty`.

        Raises:
            ArgumentError: `qty` is out of range, `relation` is unknown, or a time has no zone.
            PayloadError: A condition is not JSON.

        Source: `sluice.browse`.
        """
        return await self._runner.run(
            calls.archives.browse(
                queue_name,
                relation,
                after_msg_id=after_msg_id,
                qty=qty,
                conditional=conditional,
                conditional_headers=conditional_headers,
                since=since,
                until=until,
                matching=matching,
            )
        )

    async def get_messages(self, queue_name: str, msg_ids: Sequence[int]) -> list[StoredMessage]:
        """Return messages by msg_id from the queue, its archive and its dead letters.

        Returns:
            The messages found, lowest `msg_id` first; `state` tells the places apart. Dead letters outlive their queue:
            after it was dropped and created again, a msg_id may occur twice.

        Source: `sluice.get_messages`.
        """
        return await self._runner.run(calls.archives.get_messages(queue_name, msg_ids))

    async def count_messages(
        self,
        queue_name: str,
        relation: str = "queue",
        *,
        conditional: dict[str, Any] | None = None,
        conditional_headers: dict[str, Any] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        matching: str | None = None,
    ) -> int:
        """Count the messages of a queue that match a filter; scans up to the whole tables.

        Args:
            queue_name: An existing queue.
            relation: As for `browse`.
            conditional: As for `browse`.
            conditional_headers: As for `browse`.
            since: As for `browse`.
            until: As for `browse`.
            matching: As for `browse`.

        Raises:
            ArgumentError: As for `browse`.
            PayloadError: As for `browse`.

        Source: `sluice.count_messages`.
        """
        return await self._runner.run(
            calls.archives.count_messages(
                queue_name,
                relation,
                conditional=conditional,
                conditional_headers=conditional_headers,
                since=since,
                until=until,
                matching=matching,
            )
        )

    async def metrics(self, queue_name: str) -> QueueMetrics:
        """Return the metrics of one queue; counts all messages.

        Source: PGMQ 1.13.0 `pgmq.metrics`.
        """
        return await self._runner.run(calls.pgmq.metrics(queue_name))

    async def metrics_all(self) -> list[QueueMetrics]:
        """Return the metrics of every queue, by name; counts all messages.

        Source: PGMQ 1.13.0 `pgmq.metrics_all`.
        """
        return await self._runner.run(calls.pgmq.metrics_all())

    async def list_queues(self) -> list[QueueInfo]:
        """Return every queue, by name.

        Source: PGMQ 1.13.0 `pgmq.list_queues`.
        """
        return await self._runner.run(calls.pgmq.list_queues())

    async def purge_queue(self, queue_name: str) -> int:
        """Delete all messages of a queue, visible or not, and keep its archive.

        Takes an ACCESS EXCLUSIVE lock on the table: waits for open readers and blocks other sessions.

        Returns:
            The number of deleted messages.

        Source: PGMQ 1.13.0 `pgmq.purge_queue`.
        """
        return await self._runner.run(calls.pgmq.purge_queue(queue_name))

    async def drop_queue(self, queue_name: str) -> bool:
        """Drop a queue with its messages, its archive and its topic bindings.

        Returns:
            True if the queue existed.

        Raises:
            QueueNameError: The table belongs to a queue whose name differs in case; the error names it.

        Source: PGMQ 1.13.0 `pgmq.drop_queue`.
        """
        return await self._runner.run(calls.pgmq.drop_queue(queue_name))

    async def set_queue_options(self, queue_name: str, **options: Unpack[QueueOptions]) -> Change:
        """Change the given options of a queue; the others keep their values.

        Limits, a key order and priorities may need an index; producers and readers wait while it is built.

        Args:
            queue_name: An existing queue.
            **options: See `QueueOptions`.

        Returns:
            `unchanged` when the queue has these options already.

        Raises:
            ArgumentError: An option is unknown, its value invalid, or two of them contradict each other. Nothing was
                changed.
            QueueNotFoundError: The queue does not exist.

        Source: `sluice.set_queue_options`.
        """
        return await self._runner.run(calls.settings.set_queue_options(queue_name, **options))

    async def queue_options(self, queue_name: str) -> QueueSettings:
        """Return the options of a queue.

        Raises:
            QueueNotFoundError: The queue does not exist.

        Source: `sluice.queue_options`.
        """
        return await self._runner.run(calls.settings.queue_options(queue_name))

    async def list_queue_options(self) -> list[QueueSettings]:
        """Return the options of all queues, by name.

        Source: `sluice.queue_options`.
        """
        return await self._runner.run(calls.settings.list_queue_options())

    async def create_unlogged(
        self, queue_name: str, *, archive_retention: timedelta | None = timedelta(days=7)
    ) -> bool:
        """Create an unlogged queue: faster, but empty after a crash, a failover or a suspend of a serverless database.

        The archive is logged and kept, and ids continue. Does nothing if the queue exists, logged or unlogged.

        Args:
            queue_name: As for `create`.
            archive_retention: As for `create`.

        Returns:
            True if the queue did not exist.

        Raises:
            QueueNameError: As for `create`.
            ServerError: As for `create`.

        Source: `sluice.create_queue`; PGMQ 1.13.0 `pgmq.create_unlogged`, differences in sql/pgmq/README.md.
        """
        return await self._runner.run(
            calls.pgmq.create_unlogged(queue_name, archive_retention=archive_retention)
        )

    async def create_partitioned(
        self,
        queue_name: str,
        partition_interval: str = "10000",
        retention_interval: str | None = "100000",
        premake: int = 4,
    ) -> None:
        """Create a partitioned queue and archive; on an existing one, change these settings.

        `maintain` creates new partitions and drops expired ones. Without maintenance, all further messages go to the
        default partition.

        Args:
            queue_name: As for `create`.
            partition_interval: Range of a partition: a number of messages, or a time such as `1 day`.
            retention_interval: Distance behind the last message (or behind now) at which a partition is dropped, even
                with unread messages; None: never. Of the same kind as `partition_interval`.
            premake: Number of partitions to create in advance, 1 or more.

        Raises:
            ArgumentError: An interval is invalid, or the two are of different kinds.
            QueueNameError: As for `create`; or another queue owns the table name of the default partition.
            ServerError: The queue exists and is not partitioned in this way.

        Source: PGMQ 1.13.0 `pgmq.create_partitioned`; differences in sql/pgmq/README.md.
        """
        await self._runner.run(
            calls.partitions.create_partitioned(
                queue_name, partition_interval, retention_interval, premake
            )
        )

    async def read_grouped(self, queue_name: str, vt: int = 30, qty: int = 1) -> list[Message]:
        """Read up to `qty` messages, starting with the group whose first message is oldest.

        Args:
            queue_name: An existing queue.
            vt: Visibility timeout in seconds, 0 or more; with 0, other readers can read the same messages.
            qty: The most to read, 1 or more.

        Returns:
            0 to `qty` messages, lowest `msg_id` first. Skips groups that another transaction is reading.

        Raises:
            ArgumentError: `vt` or `qty` is out of range. Nothing was read.

        Source: PGMQ 1.13.0 `pgmq.read_grouped`; differences in sql/pgmq/README.md.
        """
        return await self._runner.run(calls.groups.read_grouped(queue_name, vt, qty))

    async def read_grouped_rr(self, queue_name: str, vt: int = 30, qty: int = 1) -> list[Message]:
        """Read up to `qty` messages round-robin: the first of each group, then the second of each, and so on.

        Args:
            queue_name: An existing queue.
            vt: As for `read_grouped`.
            qty: As for `read_grouped`.

        Returns:
            0 to `qty` messages in round-robin order, the oldest group first in each round.

        Raises:
            ArgumentError: `vt` or `qty` is out of range. Nothing was read.

        Source: PGMQ 1.13.0 `pgmq.read_grouped_rr`; differences in sql/pgmq/README.md.
        """
        return await self._runner.run(calls.groups.read_grouped_rr(queue_name, vt, qty))

    async def read_grouped_head(self, queue_name: str, vt: int = 30, qty: int = 1) -> list[Message]:
        """Read the first message of up to `qty` groups.

        Args:
            queue_name: An existing queue.
            vt: As for `read_grouped`.
            qty: The most to read, 1 or more, each from a different group.

        Returns:
            0 to `qty` messages, lowest `msg_id` first.

        Raises:
            ArgumentError: `vt` or `qty` is out of range. Nothing was read.

        Source: PGMQ 1.13.0 `pgmq.read_grouped_head`; differences in sql/pgmq/README.md.
        """
        return await self._runner.run(calls.groups.read_grouped_head(queue_name, vt, qty))

    async def read_grouped_with_poll(
        self,
        queue_name: str,
        vt: int = 30,
        qty: int = 1,
        *,
        max_poll_seconds: int = 5,
        poll_interval_ms: int = 100,
    ) -> list[Message]:
        """Read as `read_grouped` does, and wait in the server while nothing is readable.

        The connection is occupied during the wait, as with `read_with_poll`.

        Args:
            queue_name: An existing queue.
            vt: As for `read_grouped`.
            qty: As for `read_grouped`.
            max_poll_seconds: The longest wait in seconds, 1 or more.
            poll_interval_ms: Poll interval in milliseconds, 1 or more.

        Returns:
            As `read_grouped`; empty after `max_poll_seconds` without messages.

        Raises:
            ArgumentError: A number is out of range. Nothing was read.

        Source: PGMQ 1.13.0 `pgmq.read_grouped_with_poll`.
        """
        return await self._runner.run(
            calls.groups.read_grouped_with_poll(
                queue_name,
                vt,
                qty,
                max_poll_seconds=max_poll_seconds,
                poll_interval_ms=poll_interval_ms,
            )
        )

    async def read_grouped_rr_with_poll(
        self,
        queue_name: str,
        vt: int = 30,
        qty: int = 1,
        *,
        max_poll_seconds: int = 5,
        poll_interval_ms: int = 100,
    ) -> list[Message]:
        """Read as `read_grouped_rr` does, and wait in the server while nothing is readable.

        Args:
            queue_name: An existing queue.
            vt: As for `read_grouped`.
            qty: As for `read_grouped`.
            max_poll_seconds: As for `read_grouped_with_poll`.
            poll_interval_ms: As for `read_grouped_with_poll`.

        Returns:
            As `read_grouped_rr`; empty after `max_poll_seconds` without messages.

        Raises:
            ArgumentError: A number is out of range. Nothing was read.

        Source: PGMQ 1.13.0 `pgmq.read_grouped_rr_with_poll`.
        """
        return await self._runner.run(
            calls.groups.read_grouped_rr_with_poll(
                queue_name,
                vt,
                qty,
                max_poll_seconds=max_poll_seconds,
                poll_interval_ms=poll_interval_ms,
            )
        )

    async def read_grouped_head_with_poll(
        self,
        queue_name: str,
        vt: int = 30,
        qty: int = 1,
        *,
        max_poll_seconds: int = 5,
        poll_interval_ms: int = 100,
    ) -> list[Message]:
        """Read as `read_grouped_head` does, and wait in the server while nothing is readable.

        Args:
            queue_name: An existing queue.
            vt: As for `read_grouped`.
            qty: As for `read_grouped_head`.
            max_poll_seconds: As for `read_grouped_with_poll`.
            poll_interval_ms: As for `read_grouped_with_poll`.

        Returns:
            As `read_grouped_head`; empty after `max_poll_seconds` without messages.

        Raises:
            ArgumentError: A number is out of range. Nothing was read.

        Source: PGMQ 1.13.0 `pgmq.read_grouped_head_with_poll`.
        """
        return await self._runner.run(
            calls.groups.read_grouped_head_with_poll(
                queue_name,
                vt,
                qty,
                max_poll_seconds=max_poll_seconds,
                poll_interval_ms=poll_interval_ms,
            )
        )

    async def bind_topic(self, pattern: str, queue_name: str) -> None:
        """Bind a queue to the messages whose routing key matches a pattern; idempotent.

        Args:
            pattern: Words joined by dots, up to 255 letters, digits, `-` and `_`; `*` matches one word or a part of it,
                `#` matches anything, dots included. `logs.#` matches `logs.a.b`, but not `logs`.
            queue_name: An existing queue, spelled as created.

        Raises:
            ServerError: The pattern is invalid, or the queue does not exist; the error tells the cases apart.

        Source: PGMQ 1.13.0 `pgmq.bind_topic`.
        """
        await self._runner.run(calls.pgmq.bind_topic(pattern, queue_name))

    async def unbind_topic(self, pattern: str, queue_name: str) -> bool:
        """Remove a binding; messages already delivered stay.

        Returns:
            False when the binding did not exist.

        Raises:
            ServerError: The pattern or the name is empty.

        Source: PGMQ 1.13.0 `pgmq.unbind_topic`.
        """
        return await self._runner.run(calls.pgmq.unbind_topic(pattern, queue_name))

    async def test_routing(self, routing_key: str) -> list[RoutingMatch]:
        """Return the bindings that match a routing key, by pattern and queue; nothing is sent.

        Raises:
            ServerError: The routing key is invalid; the error contains the reason.

        Source: PGMQ 1.13.0 `pgmq.test_routing`.
        """
        return await self._runner.run(calls.pgmq.test_routing(routing_key))

    async def list_topic_bindings(self, queue_name: str | None = None) -> list[TopicBinding]:
        """Return the topic bindings of one queue, or of all, latest first; empty if the queue does not exist.

        Source: PGMQ 1.13.0 `pgmq.list_topic_bindings`.
        """
        return await self._runner.run(calls.pgmq.list_topic_bindings(queue_name))

    async def send_topic(
        self, routing_key: str, message: Any, *, headers: Any = None, delay: int = 0
    ) -> int:
        """Send one message to every queue bound to the routing key, once to each queue: to all or none.

        Args:
            routing_key: Words joined by dots, up to 255 letters, digits, `-` and `_`.
            message: As for `send`, but None is stored as JSON null.
            headers: As for `send`.
            delay: Seconds until the message becomes visible, 0 or more.

        Returns:
            The number of queues that received the message; 0 if none is bound.

        Raises:
            PayloadError: As for `send`. Nothing was sent.
            ArgumentError: The delay is negative or not whole. Nothing was sent.
            ServerError: The routing key is invalid; the error contains the reason. Nothing was sent.

        Source: PGMQ 1.13.0 `pgmq.send_topic`.
        """
        return await self._runner.run(
            calls.pgmq.send_topic(routing_key, message, headers=headers, delay=delay)
        )

    async def send_batch_topic(
        self,
        routing_key: str,
        messages: Sequence[Any],
        *,
        headers: Sequence[Any] | None = None,
        delay: int | datetime | None = None,
    ) -> dict[str, list[int]]:
        """Send messages to every queue bound to the routing key, once to each queue: to all or none.

        Args:
            routing_key: As for `send_topic`.
            messages: As for `send_batch`.
            headers: As for `send_batch`.
            delay: As for `send`, for all messages.

        Returns:
            The msg_ids by queue, in the order of the messages; empty if no queue is bound.

        Raises:
            PayloadError: As for `send_batch`. Nothing was sent.
            ArgumentError: As for `send_batch`. Nothing was sent.
            ServerError: As for `send_topic`. Nothing was sent.

        Source: PGMQ 1.13.0 `pgmq.send_batch_topic`.
        """
        return await self._runner.run(
            calls.pgmq.send_batch_topic(routing_key, messages, headers=headers, delay=delay)
        )
