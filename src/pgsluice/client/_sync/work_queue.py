# Generated from client/calls by tools/clients_from_calls.py: change it there, then `make generate`.
"""`WorkQueue`: its methods run the calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from psycopg import Connection
from psycopg_pool import ConnectionPool

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import (
    archives,
    claims,
    dead_letters,
    deduplication,
    groups,
    limits,
    notify,
    partitions,
    pgmq,
    reading,
    retries,
    spark_claims,
)
from pgsluice.client.limit_records import BlockedMessages, QueueLimits, WhenWaiting
from pgsluice.client.records import (
    ArchiveRetention,
    ClaimOutcome,
    DeadLetter,
    Export,
    MaintenanceFailure,
    MaintenanceStep,
    Message,
    NotifyThrottle,
    Partition,
    QueueInfo,
    QueueMetrics,
    QueueStream,
    Redriven,
    Replay,
    Replayed,
    ReplayStep,
    RoutingMatch,
    StoredMessage,
    TopicBinding,
)
from pgsluice.client.retry_records import Backoff, BegunAttempt, FailedMessage, QueueRetryPolicy


class WorkQueue:
    """Send, claim and acknowledge messages of work queues.

    Every method that works on one queue, but `create` and `create_unlogged`, raises QueueNotFoundError for a queue that
    does not exist, and every one can raise ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError.
    """

    def __init__(self, source: ConnectionPool[Any] | Connection[Any]) -> None:
        """Use a pool or a connection.

        Args:
            source: A pool: each call is a transaction of its own, and claims commit asynchronously (one that a crash
                loses only leaves its message visible). A connection: each call is part of its transaction, and
                nothing is committed unless it is in autocommit mode. The caller opens and closes it.
        """
        self._runner = Runner(source)

    def set_retention(self, queue_name: str, archive_retention: timedelta | None) -> None:
        """Keep archived messages of a queue for a while; maintenance deletes the older ones.

        Args:
            queue_name: An existing queue.
            archive_retention: How long, at least, 0 or more; None: for ever, as at the beginning.

        Raises:
            ArgumentError: It is negative, or reaches beyond the range of times. Nothing was changed.

        Source: `sluice.set_retention`.
        """
        self._runner.run(archives.set_retention(queue_name, archive_retention))

    def list_retentions(self) -> list[ArchiveRetention]:
        """Return every queue, by name, with how long its archived messages are kept.

        Source: `sluice.list_retentions`.
        """
        return self._runner.run(archives.list_retentions())

    def list_exports(self) -> list[Export]:
        """Return every export of an archive, by queue and name.

        An archive keeps what an export of its queue has not verified in the lake, whatever its retention.

        Source: `sluice.list_exports`.
        """
        return self._runner.run(archives.list_exports())

    def drop_export(self, queue_name: str, export_name: str) -> bool:
        """Keep archived messages no longer for an export; the lake stays as it is.

        Returns:
            False when the queue has no export of this name.

        Source: `sluice.drop_export`.
        """
        return self._runner.run(archives.drop_export(queue_name, export_name))

    def peek(
        self, queue_name: str, qty: int = 1, *, after_msg_id: int | None = None
    ) -> list[StoredMessage]:
        """Return messages of a queue as they are, visible or not, without claiming them.

        Args:
            queue_name: An existing queue.
            qty: The most to return, 1 or more.
            after_msg_id: Only messages with a higher msg_id; None: from the first on.

        Returns:
            0 to `qty` messages, lowest `msg_id` first.

        Raises:
            ArgumentError: `qty` is out of range.

        Source: `sluice.peek`.
        """
        return self._runner.run(archives.peek(queue_name, qty, after_msg_id=after_msg_id))

    def get_messages(self, queue_name: str, msg_ids: Sequence[int]) -> list[StoredMessage]:
        """Return messages by msg_id, wherever they are: in the queue, its archive or the dead letters.

        Returns:
            Those that were found, lowest `msg_id` first; `state` says where. The dead letters of a queue that was
            dropped and made again stay: a msg_id may then be there twice.

        Source: `sluice.get_messages`.
        """
        return self._runner.run(archives.get_messages(queue_name, msg_ids))

    def browse(
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
    ) -> list[StoredMessage]:
        """Return a page of a queue or its archive, without claiming anything.

        The last `msg_id` of a page is where the next one begins. A message with a lower one may still come: sent by a
        transaction that commits late, or archived late. A filter reads also what it passes by.

        Args:
            queue_name: An existing queue.
            relation: `queue` or `archive`.
            after_msg_id: Only messages with a higher msg_id; None: from the first on.
            qty: The most to return, 1 or more.
            conditional: Only messages that contain this JSON object (`message @> conditional`).
            conditional_headers: Only messages whose headers contain this JSON object.
            since: Only messages that came there at this time or later (queue: `enqueued_at`; archive: `archived_at`),
                with a time zone.
            until: Only messages that came there before this time, with a time zone.

        Returns:
            0 to `qty` messages, lowest `msg_id` first; fewer than `qty`: there are no more.

        Raises:
            ArgumentError: `qty` is out of range, `relation` is neither, or a time has no zone.
            PayloadError: A condition is not JSON.

        Source: `sluice.browse`.
        """
        return self._runner.run(
            archives.browse(
                queue_name,
                relation,
                after_msg_id=after_msg_id,
                qty=qty,
                conditional=conditional,
                conditional_headers=conditional_headers,
                since=since,
                until=until,
            )
        )

    def count_messages(
        self,
        queue_name: str,
        relation: str = "queue",
        *,
        conditional: dict[str, Any] | None = None,
        conditional_headers: dict[str, Any] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> int:
        """Return how many messages of a queue or its archive a filter matches; reads them, or the whole table.

        Args:
            queue_name: An existing queue.
            relation: `queue` or `archive`.
            conditional: As for `browse`.
            conditional_headers: As for `browse`.
            since: As for `browse`.
            until: As for `browse`.

        Raises:
            ArgumentError: As for `browse`.
            PayloadError: As for `browse`.

        Source: `sluice.count_messages`.
        """
        return self._runner.run(
            archives.count_messages(
                queue_name,
                relation,
                conditional=conditional,
                conditional_headers=conditional_headers,
                since=since,
                until=until,
            )
        )

    def replay(
        self, queue_name: str, msg_ids: Sequence[int], *, target_queue_name: str | None = None
    ) -> list[Replayed]:
        """Send archived messages again, as new messages that are visible at once; the archive keeps them.

        Their headers stay and get `x-pgmq-replayed-from`: an object with `queue`, `msg_id` and `archived_at`, and with
        `headers` if these were no object. Each call sends them again.

        Args:
            queue_name: The queue in whose archive they are.
            msg_ids: Their ids there, of any number: all are sent in one transaction.
            target_queue_name: The queue to send to; None: the same.

        Returns:
            Those that were in the archive, lowest first, each once, with their new msg_ids.

        Raises:
            QueueNotFoundError: One of the queues does not exist; it is named. Nothing was sent.

        Source: `sluice.replay`.
        """
        return self._runner.run(
            archives.replay(queue_name, msg_ids, target_queue_name=target_queue_name)
        )

    def start_replay(
        self,
        queue_name: str,
        *,
        target_queue_name: str | None = None,
        conditional: dict[str, Any] | None = None,
        conditional_headers: dict[str, Any] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> int:
        """Begin to send archived messages again that a filter matches; `continue_replay` sends them.

        What is archived from now on is not part of it.

        Args:
            queue_name: The queue whose archive it is.
            target_queue_name: The queue to send to; None: the same.
            conditional: As for `browse`, as are the next three, of the archive; without any, everything is sent.
            conditional_headers: As for `browse`.
            since: As for `browse`.
            until: As for `browse`.

        Returns:
            Its replay_id.

        Raises:
            QueueNotFoundError: One of the queues does not exist; it is named.
            ArgumentError: A time has no zone.
            PayloadError: A condition is not JSON.

        Source: `sluice.start_replay`.
        """
        return self._runner.run(
            archives.start_replay(
                queue_name,
                target_queue_name=target_queue_name,
                conditional=conditional,
                conditional_headers=conditional_headers,
                since=since,
                until=until,
            )
        )

    def continue_replay(self, replay_id: int, *, qty: int = 1000) -> ReplayStep:
        """Send the next messages of a replay, as `replay` does; call it, and commit, until it is finished.

        A step and its record are one transaction: two processes that go on with one replay take turns, and what a
        crash takes back is sent by the next step.

        Args:
            replay_id: From `start_replay`.
            qty: The most to send, 1 or more.

        Raises:
            ArgumentError: `qty` is out of range.
            ServerError: There is no such replay; it goes with its queues.

        Source: `sluice.continue_replay`.
        """
        return self._runner.run(archives.continue_replay(replay_id, qty=qty))

    def list_replays(self) -> list[Replay]:
        """Return every replay, under way and finished, the earliest first.

        Source: `sluice.list_replays`.
        """
        return self._runner.run(archives.list_replays())

    def delete_claimed(self, queue_name: str, messages: Sequence[Message]) -> list[ClaimOutcome]:
        """Delete claimed messages for good, those whose claim is still current.

        Args:
            queue_name: An existing queue.
            messages: As the claim returned them, in any order.

        Returns:
            The outcome of each, in their order. Nothing else was changed.

        Source: `sluice.delete`.
        """
        return self._runner.run(claims.delete(queue_name, messages))

    def archive_claimed(self, queue_name: str, messages: Sequence[Message]) -> list[ClaimOutcome]:
        """Move claimed messages into the queue's archive, those whose claim is still current.

        Args:
            queue_name: An existing queue.
            messages: As for `delete_claimed`.

        Returns:
            As for `delete_claimed`.

        Source: `sluice.archive`.
        """
        return self._runner.run(claims.archive(queue_name, messages))

    def extend_claimed(
        self, queue_name: str, messages: Sequence[Message], vt: int
    ) -> list[ClaimOutcome]:
        """Hide claimed messages for `vt` seconds from now, those whose claim is still current.

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
        return self._runner.run(claims.extend(queue_name, messages, vt))

    def release_claimed(
        self, queue_name: str, messages: Sequence[Message], *, delay: int = 0
    ) -> list[ClaimOutcome]:
        """Give claimed messages back, those whose claim is still current.

        Args:
            queue_name: An existing queue.
            messages: As for `delete_claimed`.
            delay: Seconds until they become visible, 0 or more.

        Returns:
            As for `delete_claimed`.

        Raises:
            ArgumentError: `delay` is out of range. Nothing was changed.

        Source: `sluice.release`.
        """
        return self._runner.run(claims.release_batch(queue_name, messages, delay=delay))

    def release(self, queue_name: str, msg_id: int, read_ct: int, *, delay: int = 0) -> bool:
        """Give a claimed message back, if the claim is still current.

        Args:
            queue_name: An existing queue.
            msg_id: The message.
            read_ct: As the claim returned it; together they name the claim.
            delay: Seconds until it becomes visible, 0 or more.

        Returns:
            False when somebody has claimed, archived or deleted it since. Then nothing was changed.

        Source: `sluice.release`.
        """
        return self._runner.run(claims.release(queue_name, msg_id, read_ct, delay=delay))

    def reject(
        self, queue_name: str, msg_id: int, read_ct: int, reason: str, error: str | None = None
    ) -> bool:
        """Move a claimed message to the dead letters, if the claim is still current.

        Args:
            queue_name: An existing queue.
            msg_id: The message.
            read_ct: As the claim returned it; together they name the claim.
            reason: Why it is given up, in a word or two.
            error: The error, with its trace.

        Returns:
            False when somebody has claimed, archived or deleted it since. Then nothing was changed.

        Source: `sluice.reject`.
        """
        return self._runner.run(claims.reject(queue_name, msg_id, read_ct, reason, error))

    def browse_dead_letters(
        self,
        queue_name: str,
        *,
        after_dead_letter_id: int | None = None,
        qty: int = 100,
        conditional: dict[str, Any] | None = None,
        conditional_headers: dict[str, Any] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        reason: str | None = None,
        error_type: str | None = None,
    ) -> list[DeadLetter]:
        """Return a page of a queue's dead letters; those of a dropped queue are still there.

        Args:
            queue_name: The queue they were in; it need not exist any more.
            after_dead_letter_id: Only those with a higher id; None: from the first on.
            qty: The most to return, 1 or more.
            conditional: As for `browse`.
            conditional_headers: As for `browse`.
            since: Only messages that were given up at this time or later, with a time zone.
            until: Only messages that were given up before this time, with a time zone.
            reason: Only those with this reason.
            error_type: Only those whose last error was of this type.

        Returns:
            0 to `qty` dead letters, lowest `dead_letter_id` first; fewer than `qty`: there are no more.

        Raises:
            ArgumentError: As for `browse`.
            PayloadError: As for `browse`.

        Source: `sluice.browse_dead_letters`.
        """
        return self._runner.run(
            dead_letters.browse_dead_letters(
                queue_name,
                after_dead_letter_id=after_dead_letter_id,
                qty=qty,
                conditional=conditional,
                conditional_headers=conditional_headers,
                since=since,
                until=until,
                reason=reason,
                error_type=error_type,
            )
        )

    def count_dead_letters(
        self,
        queue_name: str,
        *,
        conditional: dict[str, Any] | None = None,
        conditional_headers: dict[str, Any] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        reason: str | None = None,
        error_type: str | None = None,
    ) -> int:
        """Return how many dead letters of a queue a filter matches.

        Args:
            queue_name: As for `browse_dead_letters`, as are all others.
            conditional: As for `browse`.
            conditional_headers: As for `browse`.
            since: As for `browse_dead_letters`.
            until: As for `browse_dead_letters`.
            reason: As for `browse_dead_letters`.
            error_type: As for `browse_dead_letters`.

        Raises:
            ArgumentError: As for `browse`.
            PayloadError: As for `browse`.

        Source: `sluice.count_dead_letters`.
        """
        return self._runner.run(
            dead_letters.count_dead_letters(
                queue_name,
                conditional=conditional,
                conditional_headers=conditional_headers,
                since=since,
                until=until,
                reason=reason,
                error_type=error_type,
            )
        )

    def redrive(
        self,
        queue_name: str,
        dead_letter_ids: Sequence[int],
        *,
        target_queue_name: str | None = None,
    ) -> list[Redriven]:
        """Move dead letters back into their queue, as new messages that are visible at once.

        Their headers stay and get `x-pgmq-replayed-from`: an object with `queue`, `msg_id`, `dead_letter_id`, `dead_at`
        and `reason`, and with `headers` if these were no object. Of two that redrive the same letter one moves it.

        Args:
            queue_name: The queue they were in.
            dead_letter_ids: Their ids, of any number: all are moved in one transaction.
            target_queue_name: The queue to move them to; None: the same.

        Returns:
            Those that were there, lowest first, each once, with their new msg_ids.

        Raises:
            QueueNotFoundError: The queue to move to does not exist; it is named. Nothing was moved.

        Source: `sluice.redrive`.
        """
        return self._runner.run(
            dead_letters.redrive(queue_name, dead_letter_ids, target_queue_name=target_queue_name)
        )

    def redrive_matching(
        self,
        queue_name: str,
        *,
        target_queue_name: str | None = None,
        after_dead_letter_id: int | None = None,
        qty: int = 1000,
        conditional: dict[str, Any] | None = None,
        conditional_headers: dict[str, Any] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        reason: str | None = None,
        error_type: str | None = None,
    ) -> list[Redriven]:
        """Move the next dead letters that a filter matches, as `redrive` does.

        Those that somebody else moves at this moment are skipped. Whoever repeats it until nothing is left sets
        `until`, or counts: a message that fails again at once is a dead letter again, and there would be no end.

        Args:
            queue_name: The queue they were in.
            target_queue_name: The queue to move them to; None: the same.
            after_dead_letter_id: Only those with a higher id; None: from the first on.
            qty: The most to move, 1 or more.
            conditional: As for `browse`.
            conditional_headers: As for `browse`.
            since: As for `browse_dead_letters`.
            until: As for `browse_dead_letters`.
            reason: As for `browse_dead_letters`.
            error_type: As for `browse_dead_letters`.

        Returns:
            What was moved, lowest `dead_letter_id` first; the last is where the next call goes on.

        Raises:
            QueueNotFoundError: The queue to move to does not exist; it is named. Nothing was moved.
            ArgumentError: As for `browse`.
            PayloadError: As for `browse`.

        Source: `sluice.redrive_matching`.
        """
        return self._runner.run(
            dead_letters.redrive_matching(
                queue_name,
                target_queue_name=target_queue_name,
                after_dead_letter_id=after_dead_letter_id,
                qty=qty,
                conditional=conditional,
                conditional_headers=conditional_headers,
                since=since,
                until=until,
                reason=reason,
                error_type=error_type,
            )
        )

    def purge_dead_letters(
        self,
        queue_name: str,
        *,
        older_than: timedelta | None = None,
        dead_letter_ids: Sequence[int] | None = None,
        qty: int = 10000,
    ) -> int:
        """Delete dead letters of a queue for good; call it, and commit, until it returns 0.

        Args:
            queue_name: The queue they were in; it need not exist any more.
            older_than: Those that were given up so long ago, the oldest first; 0 is all of them.
            dead_letter_ids: Or those with these ids; the others are not looked at.
            qty: The most to delete, 1 or more.

        Returns:
            How many were deleted.

        Raises:
            ArgumentError: Neither or both were given, or `qty` is out of range. Nothing was deleted.

        Source: `sluice.purge_dead_letters`.
        """
        return self._runner.run(
            dead_letters.purge_dead_letters(
                queue_name, older_than=older_than, dead_letter_ids=dead_letter_ids, qty=qty
            )
        )

    def set_deduplication(self, queue_name: str, window: timedelta | None) -> None:
        """Let a queue know the deduplication keys of what is sent.

        Args:
            queue_name: An existing queue.
            window: How long a key is known, from its sending on; that of keys sent before stays. None: the queue takes
                no keys any more, and forgets those it knew.

        Raises:
            ArgumentError: The window is not positive.

        Source: `sluice.set_deduplication`.
        """
        self._runner.run(deduplication.set_deduplication(queue_name, window))

    def send(
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
        return self._runner.run(
            deduplication.send(
                queue_name,
                message,
                headers=headers,
                delay=delay,
                deduplication_key=deduplication_key,
            )
        )

    def send_batch(
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
        return self._runner.run(
            deduplication.send_batch(
                queue_name,
                messages,
                headers=headers,
                delay=delay,
                deduplication_keys=deduplication_keys,
            )
        )

    def create_fifo_index(self, queue_name: str) -> None:
        """Let the `read_grouped` methods find a group's messages by indexes; do nothing when they exist.

        Without them these methods are right and each call reads the whole queue. With them each send costs a little
        more. It takes the table's share lock: senders and readers wait until the indexes are built.

        Source: PGMQ 1.13.0 `pgmq.create_fifo_index`; differences in sql/pgmq/README.md.
        """
        self._runner.run(groups.create_fifo_index(queue_name))

    def create_fifo_indexes_all(self) -> None:
        """Call `create_fifo_index` for every queue, by name.

        Source: PGMQ 1.13.0 `pgmq.create_fifo_indexes_all`.
        """
        self._runner.run(groups.create_fifo_indexes_all())

    def read_grouped(self, queue_name: str, vt: int, qty: int = 1) -> list[Message]:
        """Claim up to `qty` messages, those of the group with the oldest first message first.

        Args:
            queue_name: An existing queue.
            vt: Visibility timeout, seconds, 0 or more; with 0 another reader may take them too.
            qty: The most to claim, 1 or more.

        Returns:
            0 to `qty` messages, lowest `msg_id` first. Groups that another transaction is reading are passed over.

        Raises:
            ArgumentError: `vt` or `qty` is out of range. Nothing was claimed.

        Source: PGMQ 1.13.0 `pgmq.read_grouped`; differences in sql/pgmq/README.md.
        """
        return self._runner.run(groups.read_grouped(queue_name, vt, qty))

    def read_grouped_rr(self, queue_name: str, vt: int, qty: int = 1) -> list[Message]:
        """Claim up to `qty` messages by turns: the first of each group, then the second of each, and so on.

        Args:
            queue_name: An existing queue.
            vt: As for `read_grouped`.
            qty: As for `read_grouped`.

        Returns:
            0 to `qty` messages in the order of the turns; the oldest group first in each.

        Raises:
            ArgumentError: `vt` or `qty` is out of range. Nothing was claimed.

        Source: PGMQ 1.13.0 `pgmq.read_grouped_rr`; differences in sql/pgmq/README.md.
        """
        return self._runner.run(groups.read_grouped_rr(queue_name, vt, qty))

    def read_grouped_head(self, queue_name: str, vt: int, qty: int = 1) -> list[Message]:
        """Claim the first message of up to `qty` groups.

        Args:
            queue_name: An existing queue.
            vt: As for `read_grouped`.
            qty: The most to claim, 1 or more: each of another group.

        Returns:
            0 to `qty` messages, lowest `msg_id` first.

        Raises:
            ArgumentError: `vt` or `qty` is out of range. Nothing was claimed.

        Source: PGMQ 1.13.0 `pgmq.read_grouped_head`; differences in sql/pgmq/README.md.
        """
        return self._runner.run(groups.read_grouped_head(queue_name, vt, qty))

    def read_grouped_with_poll(
        self,
        queue_name: str,
        vt: int,
        qty: int = 1,
        *,
        max_poll_seconds: int = 5,
        poll_interval_ms: int = 100,
    ) -> list[Message]:
        """Claim as `read_grouped` does, and wait in the server while there is nothing to claim.

        The connection is taken for the whole wait, as by `read_with_poll`.

        Args:
            queue_name: An existing queue.
            vt: As for `read_grouped`.
            qty: As for `read_grouped`.
            max_poll_seconds: The longest wait, seconds, 1 or more.
            poll_interval_ms: The pause between two looks, milliseconds, 1 or more.

        Returns:
            As `read_grouped`; empty when the time is over.

        Raises:
            ArgumentError: A number is out of range. Nothing was claimed.

        Source: PGMQ 1.13.0 `pgmq.read_grouped_with_poll`.
        """
        return self._runner.run(
            groups.read_grouped_with_poll(
                queue_name,
                vt,
                qty,
                max_poll_seconds=max_poll_seconds,
                poll_interval_ms=poll_interval_ms,
            )
        )

    def read_grouped_rr_with_poll(
        self,
        queue_name: str,
        vt: int,
        qty: int = 1,
        *,
        max_poll_seconds: int = 5,
        poll_interval_ms: int = 100,
    ) -> list[Message]:
        """Claim as `read_grouped_rr` does, and wait in the server while there is nothing to claim.

        Args:
            queue_name: An existing queue.
            vt: As for `read_grouped`.
            qty: As for `read_grouped`.
            max_poll_seconds: As for `read_grouped_with_poll`.
            poll_interval_ms: As for `read_grouped_with_poll`.

        Returns:
            As `read_grouped_rr`; empty when the time is over.

        Raises:
            ArgumentError: A number is out of range. Nothing was claimed.

        Source: PGMQ 1.13.0 `pgmq.read_grouped_rr_with_poll`.
        """
        return self._runner.run(
            groups.read_grouped_rr_with_poll(
                queue_name,
                vt,
                qty,
                max_poll_seconds=max_poll_seconds,
                poll_interval_ms=poll_interval_ms,
            )
        )

    def read_grouped_head_with_poll(
        self,
        queue_name: str,
        vt: int,
        qty: int = 1,
        *,
        max_poll_seconds: int = 5,
        poll_interval_ms: int = 100,
    ) -> list[Message]:
        """Claim as `read_grouped_head` does, and wait in the server while there is nothing to claim.

        Args:
            queue_name: An existing queue.
            vt: As for `read_grouped`.
            qty: As for `read_grouped_head`.
            max_poll_seconds: As for `read_grouped_with_poll`.
            poll_interval_ms: As for `read_grouped_with_poll`.

        Returns:
            As `read_grouped_head`; empty when the time is over.

        Raises:
            ArgumentError: A number is out of range. Nothing was claimed.

        Source: PGMQ 1.13.0 `pgmq.read_grouped_head_with_poll`.
        """
        return self._runner.run(
            groups.read_grouped_head_with_poll(
                queue_name,
                vt,
                qty,
                max_poll_seconds=max_poll_seconds,
                poll_interval_ms=poll_interval_ms,
            )
        )

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
        return self._runner.run(limits.claim_messages(queue_name, vt, qty, worker=worker))

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
                fleet_concurrency=fleet_concurrency,
                key_concurrency=key_concurrency,
                rate=rate,
                rate_s=rate_s,
                when_waiting=when_waiting,
                priority_weights=priority_weights,
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

    def enable_notify_insert(self, queue_name: str, *, throttle_interval_ms: int = 250) -> None:
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
        self._runner.run(
            notify.enable_notify_insert(queue_name, throttle_interval_ms=throttle_interval_ms)
        )

    def disable_notify_insert(self, queue_name: str) -> None:
        """Notify nobody of new messages any more; do nothing when nobody was, or when the queue does not exist.

        It waits for open transactions that use the queue, and others wait for it.

        Source: PGMQ 1.13.0 `pgmq.disable_notify_insert`.
        """
        self._runner.run(notify.disable_notify_insert(queue_name))

    def update_notify_insert(self, queue_name: str, *, throttle_interval_ms: int) -> None:
        """Change how often listeners are notified at most, without a lock on the queue; the next message notifies.

        Args:
            queue_name: A queue that notifies, in the upper and lower case of its creation.
            throttle_interval_ms: As for `enable_notify_insert`.

        Raises:
            ArgumentError: The interval is negative or not whole.
            ServerError: The queue does not exist, or does not notify; the message says which.

        Source: PGMQ 1.13.0 `pgmq.update_notify_insert`.
        """
        self._runner.run(
            notify.update_notify_insert(queue_name, throttle_interval_ms=throttle_interval_ms)
        )

    def list_notify_insert_throttles(self) -> list[NotifyThrottle]:
        """Return every queue that notifies, by name.

        Source: PGMQ 1.13.0 `pgmq.list_notify_insert_throttles`.
        """
        return self._runner.run(notify.list_notify_insert_throttles())

    def create_partitioned(
        self,
        queue_name: str,
        partition_interval: str = "10000",
        retention_interval: str | None = "100000",
        premake: int = 4,
    ) -> None:
        """Create a queue and its archive in partitions; on one that exists, change these settings.

        `maintain` makes the next partitions and drops the old ones. Without it messages go to a default partition, in
        any number.

        Args:
            queue_name: As for `create`.
            partition_interval: What one partition takes: a number of messages, or a time such as `1 day`.
            retention_interval: How far behind the last message, or now, a partition is dropped, read or not; None:
                never. A number or a time, as the other.
            premake: How many stand ready beyond the one in use, 1 or more.

        Raises:
            ArgumentError: An interval is none, or the two are not of one kind.
            QueueNameError: As for `create`; or another queue has the table of its default partition.
            ServerError: A queue of this name exists, and is not partitioned so.

        Source: PGMQ 1.13.0 `pgmq.create_partitioned`; differences in sql/pgmq/README.md.
        """
        self._runner.run(
            partitions.create_partitioned(
                queue_name, partition_interval, retention_interval, premake
            )
        )

    def convert_archive_partitioned(
        self,
        table_name: str,
        partition_interval: str = "10000",
        retention_interval: str | None = "100000",
        leading_partition: int = 10,
    ) -> None:
        """Put the archive of a queue into partitions; what it holds stays in it, as the first one.

        Nothing is archived meanwhile: the archive is read once. Does nothing when it is partitioned already, or not
        there.

        Args:
            table_name: The queue's name.
            partition_interval: As for `create_partitioned`.
            retention_interval: As for `create_partitioned`.
            leading_partition: How many stand ready beyond the one in use, 1 or more.

        Raises:
            ArgumentError: As for `create_partitioned`.
            QueueNameError: Another queue has the table of its default partition.
            ServerError: The archive has policies, triggers or indexes that were added to it.

        Source: PGMQ 1.13.0 `pgmq.convert_archive_partitioned`; differences in sql/pgmq/README.md.
        """
        self._runner.run(
            partitions.convert_archive_partitioned(
                table_name, partition_interval, retention_interval, leading_partition
            )
        )

    def list_partitions(self, queue_name: str) -> list[Partition]:
        """Return the partitions of a queue and then of its archive, in order, the default one of each last.

        Empty for what is not partitioned, and for a queue that does not exist.
        """
        return self._runner.run(partitions.list_partitions(queue_name))

    def maintain(self) -> list[MaintenanceStep]:
        """Do the next part of the work that keeps queues in order. Call it again and again, every few seconds.

        A call takes a fraction of a second, and several at once share the work. It waits for nobody longer than that:
        what is in use is left to a later call. Its locks are held to the end of the transaction, so give it its own.

        Returns:
            One record for each thing done, or given up for now. Empty: there was nothing to do.

        Raises:
            ServerError: The transaction is not READ COMMITTED.
        """
        return self._runner.run(partitions.maintain())

    def list_failures(self) -> list[MaintenanceFailure]:
        """Return the maintenance that failed at its last attempt: of queues, logs and share groups, and whole tasks.

        A failure is gone when the task succeeds, and a day after its last attempt.

        Raises:
            PrivilegeError: The role is no member of `sluice_admin` or `pgq_admin`.

        Source: `sluice.list_failures`.
        """
        return self._runner.run(partitions.list_failures())

    def create(self, queue_name: str) -> None:
        """Create a queue and its archive; do nothing when it exists.

        Args:
            queue_name: 1 to 47 bytes; letters, digits and underscores are always safe. Upper and lower case name the
                same table.

        Raises:
            QueueNameError: The name is empty, has control characters, or would share its table with another queue.
            ServerError: The name is too long or has `$`, `;`, `--` or a quote.

        Source: PGMQ 1.13.0 `pgmq.create`; differences in sql/pgmq/README.md.
        """
        self._runner.run(pgmq.create(queue_name))

    def create_unlogged(self, queue_name: str) -> None:
        """Create an unlogged queue: faster, and empty after a crash, a failover, or a suspend of a server like Neon's.

        Its archive is logged and stays, and the ids go on. Does nothing when the queue exists, whatever its kind.

        Args:
            queue_name: As for `create`.

        Raises:
            QueueNameError: As for `create`.
            ServerError: As for `create`.

        Source: PGMQ 1.13.0 `pgmq.create_unlogged`; differences in sql/pgmq/README.md.
        """
        self._runner.run(pgmq.create_unlogged(queue_name))

    def drop_queue(self, queue_name: str) -> bool:
        """Drop a queue with its messages, its archive and its bindings to topics.

        Returns:
            True when it existed.

        Raises:
            QueueNameError: The table belongs to a queue whose name differs in case; it is named.

        Source: PGMQ 1.13.0 `pgmq.drop_queue`.
        """
        return self._runner.run(pgmq.drop_queue(queue_name))

    def list_queues(self) -> list[QueueInfo]:
        """Return every queue, by name.

        Source: PGMQ 1.13.0 `pgmq.list_queues`.
        """
        return self._runner.run(pgmq.list_queues())

    def purge_queue(self, queue_name: str) -> int:
        """Delete every message of a queue, visible or not, and leave its archive.

        Takes the table's exclusive lock: it waits for open readers, and others wait for it.

        Returns:
            How many there were.

        Source: PGMQ 1.13.0 `pgmq.purge_queue`.
        """
        return self._runner.run(pgmq.purge_queue(queue_name))

    def metrics(self, queue_name: str) -> QueueMetrics:
        """Return the state of one queue; counts every message.

        Source: PGMQ 1.13.0 `pgmq.metrics`.
        """
        return self._runner.run(pgmq.metrics(queue_name))

    def metrics_all(self) -> list[QueueMetrics]:
        """Return the state of every queue, by name.

        Source: PGMQ 1.13.0 `pgmq.metrics_all`.
        """
        return self._runner.run(pgmq.metrics_all())

    def bind_topic(self, pattern: str, queue_name: str) -> None:
        """Let a queue get the messages whose routing key matches a pattern; twice does no harm.

        Args:
            pattern: Words joined by dots, up to 255 letters, digits, `-` and `_`; `*` stands for one word or a part of
                it, `#` for anything, dots included. So `logs.#` matches `logs.a.b`, and not `logs`.
            queue_name: An existing queue, in the upper and lower case of its creation.

        Raises:
            ServerError: The pattern cannot be one, or the queue does not exist; the message says which.

        Source: PGMQ 1.13.0 `pgmq.bind_topic`.
        """
        self._runner.run(pgmq.bind_topic(pattern, queue_name))

    def unbind_topic(self, pattern: str, queue_name: str) -> bool:
        """Take a binding away; the messages it brought stay.

        Returns:
            False when there was none.

        Raises:
            ServerError: The pattern or the name is empty.

        Source: PGMQ 1.13.0 `pgmq.unbind_topic`.
        """
        return self._runner.run(pgmq.unbind_topic(pattern, queue_name))

    def test_routing(self, routing_key: str) -> list[RoutingMatch]:
        """Return the bindings that a routing key matches, by pattern and queue; nothing is sent.

        Raises:
            ServerError: The key cannot be one; the message says why.

        Source: PGMQ 1.13.0 `pgmq.test_routing`.
        """
        return self._runner.run(pgmq.test_routing(routing_key))

    def list_topic_bindings(self, queue_name: str | None = None) -> list[TopicBinding]:
        """Return the bindings of one queue, or of all, the latest first; empty for a queue that does not exist.

        Source: PGMQ 1.13.0 `pgmq.list_topic_bindings`.
        """
        return self._runner.run(pgmq.list_topic_bindings(queue_name))

    def send_topic(
        self, routing_key: str, message: Any, *, headers: Any = None, delay: int = 0
    ) -> int:
        """Append one message to every queue bound to its routing key, once to each: to all or to none.

        Args:
            routing_key: Words joined by dots, up to 255 letters, digits, `-` and `_`.
            message: As for `send`, but None is stored as JSON null.
            headers: As for `send`.
            delay: Seconds until it becomes visible, 0 or more.

        Returns:
            How many queues got it; 0 when none is bound.

        Raises:
            PayloadError: As for `send`. Nothing was sent.
            ArgumentError: The delay is negative or not whole. Nothing was sent.
            ServerError: The key cannot be one; the message says why. Nothing was sent.

        Source: PGMQ 1.13.0 `pgmq.send_topic`.
        """
        return self._runner.run(pgmq.send_topic(routing_key, message, headers=headers, delay=delay))

    def send_batch_topic(
        self,
        routing_key: str,
        messages: Sequence[Any],
        *,
        headers: Sequence[Any] | None = None,
        delay: int | datetime | None = None,
    ) -> dict[str, list[int]]:
        """Append messages to every queue bound to the routing key, once to each: to all or to none.

        Args:
            routing_key: As for `send_topic`.
            messages: As for `send_batch`.
            headers: As for `send_batch`.
            delay: As for `send`, for all of them.

        Returns:
            Their msg_ids by queue, in the order of the messages; empty when no queue is bound.

        Raises:
            PayloadError: As for `send_batch`. Nothing was sent.
            ArgumentError: As for `send_batch`. Nothing was sent.
            ServerError: As for `send_topic`. Nothing was sent.

        Source: PGMQ 1.13.0 `pgmq.send_batch_topic`.
        """
        return self._runner.run(
            pgmq.send_batch_topic(routing_key, messages, headers=headers, delay=delay)
        )

    def read(
        self, queue_name: str, vt: int, qty: int = 1, *, conditional: dict[str, Any] | None = None
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
        return self._runner.run(reading.read(queue_name, vt, qty, conditional=conditional))

    def read_with_poll(
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
        return self._runner.run(
            reading.read_with_poll(
                queue_name,
                vt,
                qty,
                max_poll_seconds=max_poll_seconds,
                poll_interval_ms=poll_interval_ms,
                conditional=conditional,
            )
        )

    def pop(self, queue_name: str, qty: int = 1) -> list[Message]:
        """Take up to `qty` visible messages and delete them at once.

        At most once: what the caller does not finish is gone, unless this runs in its transaction and that rolls
        back.

        Returns:
            0 to `qty` messages, lowest `msg_id` first.

        Raises:
            ArgumentError: `qty` is out of range. Nothing was taken.

        Source: PGMQ 1.13.0 `pgmq.pop`.
        """
        return self._runner.run(reading.pop(queue_name, qty))

    def delete(self, queue_name: str, msg_id: int) -> bool:
        """Delete one message for good, whoever holds it.

        Returns:
            False when it is not in the queue.

        Source: PGMQ 1.13.0 `pgmq.delete`.
        """
        return self._runner.run(reading.delete(queue_name, msg_id))

    def delete_batch(self, queue_name: str, msg_ids: Sequence[int]) -> list[int]:
        """Delete messages for good, whoever holds them.

        Returns:
            The msg_ids that were in the queue, lowest first, each once.

        Source: PGMQ 1.13.0 `pgmq.delete`.
        """
        return self._runner.run(reading.delete_batch(queue_name, msg_ids))

    def archive(self, queue_name: str, msg_id: int) -> bool:
        """Move one message into the queue's archive, whoever holds it.

        Returns:
            False when it is not in the queue.

        Source: PGMQ 1.13.0 `pgmq.archive`.
        """
        return self._runner.run(reading.archive(queue_name, msg_id))

    def archive_batch(self, queue_name: str, msg_ids: Sequence[int]) -> list[int]:
        """Move messages into the queue's archive, whoever holds them.

        Returns:
            The msg_ids that were in the queue, lowest first, each once.

        Source: PGMQ 1.13.0 `pgmq.archive`.
        """
        return self._runner.run(reading.archive_batch(queue_name, msg_ids))

    def set_vt(self, queue_name: str, msg_id: int, vt: int | datetime) -> Message | None:
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
        return self._runner.run(reading.set_vt(queue_name, msg_id, vt))

    def set_vt_batch(
        self, queue_name: str, msg_ids: Sequence[int], vt: int | datetime
    ) -> list[Message]:
        """Change when messages become visible, whoever holds them.

        Returns:
            Those that were in the queue, as they are now, lowest `msg_id` first, each once.

        Raises:
            ArgumentError: As for `set_vt`.

        Source: PGMQ 1.13.0 `pgmq.set_vt`.
        """
        return self._runner.run(reading.set_vt_batch(queue_name, msg_ids, vt))

    def set_retry_policy(
        self,
        queue_name: str,
        *,
        max_attempts: int = 5,
        backoff: Backoff = "exponential",
        backoff_base: timedelta = timedelta(seconds=1),
        backoff_max: timedelta = timedelta(minutes=5),
        backoff_jitter: bool = True,
        backoff_factor: float = 2.0,
    ) -> None:
        """Say how often messages of a queue are tried, and how long the pauses are; it counts from the next failure on.

        Args:
            queue_name: An existing queue.
            max_attempts: Attempts after which a message goes to the dead letters, 1 or more. With 1 every start is
                noted; a policy that becomes 1 while workers run may still let one more attempt happen.
            backoff: How the pauses grow: `constant`; `linear`; `exponential`, by the factor.
            backoff_base: The pause after the first attempt, 0 or more.
            backoff_max: The longest pause, 0 or more.
            backoff_jitter: Whether each pause is between half of it and all of it, at random.
            backoff_factor: By how much each pause is longer than the one before, with exponential backoff; 1 or more.

        Raises:
            ArgumentError: It could not be followed. Nothing was changed.

        Source: `sluice.set_retry_policy`.
        """
        self._runner.run(
            retries.set_retry_policy(
                queue_name,
                max_attempts=max_attempts,
                backoff=backoff,
                backoff_base=backoff_base,
                backoff_max=backoff_max,
                backoff_jitter=backoff_jitter,
                backoff_factor=backoff_factor,
            )
        )

    def drop_retry_policy(self, queue_name: str) -> bool:
        """Go back to the default retry policy of a queue.

        Returns:
            False when it had none of its own.

        Source: `sluice.drop_retry_policy`.
        """
        return self._runner.run(retries.drop_retry_policy(queue_name))

    def list_retry_policies(self) -> list[QueueRetryPolicy]:
        """Return every queue, by name, with its retry policy.

        Source: `sluice.list_retry_policies`.
        """
        return self._runner.run(retries.list_retry_policies())

    def begin_attempts(
        self,
        queue_name: str,
        messages: Sequence[Message],
        *,
        worker: str | None = None,
        max_attempts: int | None = None,
    ) -> list[BegunAttempt]:
        """Note that the handlers of claimed messages start; commit before they do.

        The first claim of a message (`read_ct` is 1) needs no call, unless there is only one attempt. Said again of the
        same claim, as after a lost reply, it counts once.

        Args:
            queue_name: An existing queue.
            messages: As the claim returned them, in any order.
            worker: Who starts them; kept with the message.
            max_attempts: 1 or more; None: as the policy of the queue says.

        Returns:
            What is to become of each, in their order. Start those that are begun.

        Raises:
            ArgumentError: `max_attempts` is out of range. Nothing was changed.

        Source: `sluice.begin_attempts`.
        """
        return self._runner.run(
            retries.begin_attempts(queue_name, messages, worker=worker, max_attempts=max_attempts)
        )

    def unanswered_starts(self, queue_name: str, messages: Sequence[Message]) -> list[int]:
        """Return which of these messages, claimed again, may have killed the process that started them last.

        Nobody heard of their last start again. A worker starts them one after the other, so that one that kills takes
        no others along.

        Args:
            queue_name: An existing queue.
            messages: As the claim returned them, those whose `read_ct` is 2 or more.

        Returns:
            Their `msg_id`s, in the order of the messages.

        Source: `sluice.unanswered_starts`.
        """
        return self._runner.run(retries.unanswered_starts(queue_name, messages))

    def count_retrying(self, queue_name: str) -> int:
        """Return how many messages of a queue failed and wait for their next attempt.

        Args:
            queue_name: An existing queue.

        Source: `sluice.count_retrying`.
        """
        return self._runner.run(retries.count_retrying(queue_name))

    def fail(
        self,
        queue_name: str,
        failures: Sequence[FailedMessage],
        *,
        worker: str | None = None,
        policy: dict[str, Any] | None = None,
    ) -> list[ClaimOutcome]:
        """Settle claimed messages whose handlers failed: each comes again after a pause, or is a dead letter.

        Said again, as after a lost reply, it changes nothing and returns what was done.

        Args:
            queue_name: An existing queue.
            failures: What failed, and why, in any order. What PostgreSQL cannot store of their texts is written out.
            worker: Who failed; kept with the message.
            policy: Fields in place of those of the queue's policy: `max_attempts`, `backoff`, `backoff_base` and
                `backoff_max` (seconds), `backoff_jitter`, `backoff_factor`.

        Returns:
            What became of each, in their order.

        Raises:
            ArgumentError: A delay is out of range, or the policy could not be followed. Nothing was changed.

        Source: `sluice.fail`.
        """
        return self._runner.run(retries.fail(queue_name, failures, worker=worker, policy=policy))

    def hand_back(
        self, queue_name: str, messages: Sequence[Message], *, delay_s: float = 0.0
    ) -> list[ClaimOutcome]:
        """Give claimed messages back as if this claim had not been: it counts as no attempt.

        Args:
            queue_name: An existing queue.
            messages: As the claim returned them, in any order.
            delay_s: Seconds until they become visible, 0 or more.

        Returns:
            The outcome of each, in their order. Nothing else was changed.

        Raises:
            ArgumentError: `delay_s` is out of range. Nothing was changed.

        Source: `sluice.hand_back`.
        """
        return self._runner.run(retries.hand_back(queue_name, messages, delay_s=delay_s))

    def lock_messages(self, queue_name: str, messages: Sequence[Message]) -> list[ClaimOutcome]:
        """Lock claimed messages to the end of the transaction; nobody else claims them, also when their time is over.

        On a pool, where each call is a transaction of its own, it only tells which claims are current.

        Args:
            queue_name: An existing queue.
            messages: As the claim returned them, in any order.

        Returns:
            The outcome of each, in their order: `done`, it is locked.

        Source: `sluice.lock_messages`.
        """
        return self._runner.run(retries.lock_messages(queue_name, messages))

    def release_claims(self, stream_name: str) -> int | None:
        """Give up a stream of a queue: what it claimed and did not settle is visible again at once.

        Args:
            stream_name: The option `consumer` of Spark's query, which has to be stopped. What it had stored and not
                settled comes twice; started again with its checkpoint, it fails and says why.

        Returns:
            How many messages; None when there is no such stream.

        Source: `sluice.release_claims`.
        """
        return self._runner.run(spark_claims.release_claims(stream_name))

    def list_queue_streams(self) -> list[QueueStream]:
        """Return the streams that read queues, by name, and what each has claimed and not settled.

        Source: `sluice.list_queue_streams`.
        """
        return self._runner.run(spark_claims.list_queue_streams())
