"""The methods of the work queue that look without claiming, keep archives, and send again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import archives
from pgsluice.client.records import (
    ArchiveRetention,
    DeadLetter,
    Export,
    Redriven,
    Replay,
    Replayed,
    ReplayStep,
    StoredMessage,
)


class AsyncArchives:
    """Looking into queues, archives and dead letters, and sending again; a part of `AsyncWorkQueue`."""

    _runner: AsyncRunner

    async def set_retention(self, queue_name: str, archive_retention: timedelta | None) -> None:
        """Keep archived messages of a queue for a while; maintenance deletes the older ones.

        Args:
            queue_name: An existing queue.
            archive_retention: How long, at least, 0 or more; None: for ever, as at the beginning.

        Raises:
            ArgumentError: It is negative, or reaches beyond the range of times. Nothing was changed.

        Source: `sluice.set_retention`.
        """
        await self._runner.run(archives.set_retention(queue_name, archive_retention))

    async def list_retentions(self) -> list[ArchiveRetention]:
        """Return every queue, by name, with how long its archived messages are kept.

        Source: `sluice.list_retentions`.
        """
        return await self._runner.run(archives.list_retentions())

    async def list_exports(self) -> list[Export]:
        """Return every export of an archive, by queue and name.

        An archive keeps what an export of its queue has not verified in the lake, whatever its retention.

        Source: `sluice.list_exports`.
        """
        return await self._runner.run(archives.list_exports())

    async def drop_export(self, queue_name: str, export_name: str) -> bool:
        """Keep archived messages no longer for an export; the lake stays as it is.

        Returns:
            False when the queue has no export of this name.

        Source: `sluice.drop_export`.
        """
        return await self._runner.run(archives.drop_export(queue_name, export_name))

    async def peek(
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
        return await self._runner.run(archives.peek(queue_name, qty, after_msg_id))

    async def get_messages(self, queue_name: str, msg_ids: Sequence[int]) -> list[StoredMessage]:
        """Return messages by msg_id, wherever they are: in the queue, its archive or the dead letters.

        Returns:
            Those that were found, lowest `msg_id` first; `state` says where. The dead letters of a queue that was
            dropped and made again stay: a msg_id may then be there twice.

        Source: `sluice.get_messages`.
        """
        return await self._runner.run(archives.get_messages(queue_name, msg_ids))

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
        return await self._runner.run(
            archives.browse(
                queue_name,
                relation,
                after_msg_id,
                qty,
                conditional,
                conditional_headers,
                since,
                until,
            )
        )

    async def count_messages(
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
        return await self._runner.run(
            archives.count_messages(
                queue_name, relation, conditional, conditional_headers, since, until
            )
        )

    async def replay(
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
        return await self._runner.run(archives.replay(queue_name, msg_ids, target_queue_name))

    async def start_replay(
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
        return await self._runner.run(
            archives.start_replay(
                queue_name, target_queue_name, conditional, conditional_headers, since, until
            )
        )

    async def continue_replay(self, replay_id: int, *, qty: int = 1000) -> ReplayStep:
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
        return await self._runner.run(archives.continue_replay(replay_id, qty))

    async def list_replays(self) -> list[Replay]:
        """Return every replay, under way and finished, the earliest first.

        Source: `sluice.list_replays`.
        """
        return await self._runner.run(archives.list_replays())

    async def browse_dead_letters(
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
        return await self._runner.run(
            archives.browse_dead_letters(
                queue_name,
                after_dead_letter_id,
                qty,
                conditional,
                conditional_headers,
                since,
                until,
                reason,
                error_type,
            )
        )

    async def count_dead_letters(
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
        return await self._runner.run(
            archives.count_dead_letters(
                queue_name, conditional, conditional_headers, since, until, reason, error_type
            )
        )

    async def redrive(
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
        return await self._runner.run(
            archives.redrive(queue_name, dead_letter_ids, target_queue_name)
        )

    async def redrive_matching(
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
        return await self._runner.run(
            archives.redrive_matching(
                queue_name,
                target_queue_name,
                after_dead_letter_id,
                qty,
                conditional,
                conditional_headers,
                since,
                until,
                reason,
                error_type,
            )
        )

    async def purge_dead_letters(
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
        return await self._runner.run(
            archives.purge_dead_letters(queue_name, older_than, dead_letter_ids, qty)
        )
