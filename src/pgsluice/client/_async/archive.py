# Generated from client/calls by tools/clients_from_calls.py: change it there, then `make generate`.
"""`AsyncArchive`: its methods run the calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgsluice.client import calls
from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.sources import AsyncConnectable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Any

    from pgsluice.client.records import Export, Replay, Replayed, ReplayStep


class AsyncArchive:
    """Keep, export and replay the archived messages of queues.

    Methods on one queue raise QueueNotFoundError if the queue does not exist. All methods can raise
    ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError.
    """

    def __init__(self, source: AsyncConnectable) -> None:
        """Use a pool or a connection.

        Args:
            source: With a pool, each call is a transaction of its own. With a connection, each call runs in the
                caller's transaction, and commits only in autocommit mode. The caller opens and closes it.
        """
        self._runner = AsyncRunner(source)

    async def list_exports(self) -> list[Export]:
        """Return every archive export to a lake table, by queue and name.

        A message stays in the archive until every export of its queue has verified it in the lake, whatever the
        retention.

        Source: `sluice.list_exports`.
        """
        return await self._runner.run(calls.archives.list_exports())

    async def drop_export(self, queue_name: str, export_name: str) -> bool:
        """Drop an export, so that the archive no longer keeps messages for it; the lake table is not changed.

        Returns:
            False when the queue has no export of this name.

        Source: `sluice.drop_export`.
        """
        return await self._runner.run(calls.archives.drop_export(queue_name, export_name))

    async def replay(
        self, queue_name: str, msg_ids: Sequence[int], *, target_queue_name: str | None = None
    ) -> list[Replayed]:
        """Send archived messages again, as new messages that are visible immediately; the archive keeps the originals.

        The new messages keep the headers and get `x-pgmq-replayed-from`: an object with `queue`, `msg_id` and
        `archived_at`, and with `headers` if the original headers were not an object. Not idempotent: each call sends
        new messages.

        Args:
            queue_name: The queue whose archive holds the messages.
            msg_ids: Ids of the archived messages; all are sent in one transaction.
            target_queue_name: The queue to send to; None: the same queue.

        Returns:
            The messages found in the archive with their new msg_ids, each once, lowest `archived_msg_id` first.

        Raises:
            QueueNotFoundError: One of the queues does not exist; the error names it. Nothing was sent.

        Source: `sluice.replay`.
        """
        return await self._runner.run(
            calls.archives.replay(queue_name, msg_ids, target_queue_name=target_queue_name)
        )

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
        """Start a replay of the archived messages that match a filter; `continue_replay` sends them.

        Messages archived later are not part of the replay.

        Args:
            queue_name: The queue whose archive is replayed.
            target_queue_name: The queue to send to; None: the same.
            conditional: As for `browse`. Without any filter, the whole archive is sent.
            conditional_headers: As for `browse`.
            since: As for `browse`.
            until: As for `browse`.

        Returns:
            The replay_id.

        Raises:
            QueueNotFoundError: One of the queues does not exist; the error names it.
            ArgumentError: A time has no zone.
            PayloadError: A condition is not JSON.

        Source: `sluice.start_replay`.
        """
        return await self._runner.run(
            calls.archives.start_replay(
                queue_name,
                target_queue_name=target_queue_name,
                conditional=conditional,
                conditional_headers=conditional_headers,
                since=since,
                until=until,
            )
        )

    async def continue_replay(self, replay_id: int, *, qty: int = 1000) -> ReplayStep:
        """Send the next messages of a replay, as `replay` does; call it, and commit, until it is finished.

        A step and the replay's position are committed in one transaction: concurrent callers take turns, and the next
        step repeats a step that a crash rolled back.

        Args:
            replay_id: From `start_replay`.
            qty: The most to send, 1 or more.

        Raises:
            ArgumentError: `qty` is out of range.
            ServerError: The replay does not exist; dropping one of its queues drops it.

        Source: `sluice.continue_replay`.
        """
        return await self._runner.run(calls.archives.continue_replay(replay_id, qty=qty))

    async def list_replays(self) -> list[Replay]:
        """Return every replay, running or finished, earliest first.

        Source: `sluice.list_replays`.
        """
        return await self._runner.run(calls.archives.list_replays())

    async def convert_archive_partitioned(
        self,
        table_name: str,
        partition_interval: str = "10000",
        retention_interval: str | None = "100000",
        leading_partition: int = 10,
    ) -> None:
        """Partition the archive of a queue; its rows become the first partition.

        Scans the archive once and blocks archiving meanwhile. Does nothing if the archive is already partitioned or
        does not exist.

        Args:
            table_name: Name of the queue.
            partition_interval: As for `create_partitioned`.
            retention_interval: As for `create_partitioned`.
            leading_partition: Number of partitions to create in advance, 1 or more.

        Raises:
            ArgumentError: As for `create_partitioned`.
            QueueNameError: Another queue owns the table name of the default partition.
            ServerError: Policies, triggers or indexes were added to the archive.

        Source: PGMQ 1.13.0 `pgmq.convert_archive_partitioned`; differences in sql/pgmq/README.md.
        """
        await self._runner.run(
            calls.partitions.convert_archive_partitioned(
                table_name, partition_interval, retention_interval, leading_partition
            )
        )
