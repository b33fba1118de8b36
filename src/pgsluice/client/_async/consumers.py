"""The methods of the event log for who reads it, and how far they are."""

from __future__ import annotations

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import logs, pgq
from pgsluice.client.log_records import ConsumerInfo


class AsyncConsumers:
    """Subscriptions and positions; a part of `AsyncEventLog`."""

    _runner: AsyncRunner

    async def register_consumer(self, queue_name: str, consumer_name: str) -> bool:
        """Subscribe a consumer, from the latest tick on.

        Returns:
            False when it was subscribed already; its position is kept.

        Raises:
            LogNotFoundError: There is no such log.

        Source: PgQ 3.5.2 `pgq.register_consumer`.
        """
        return await self._runner.run(pgq.register_consumer(queue_name, consumer_name))

    async def register_consumer_at(
        self, queue_name: str, consumer_name: str, tick_pos: int
    ) -> bool:
        """Subscribe a consumer from a tick on, or move it there; its open batch is closed.

        Args:
            queue_name: An existing log.
            consumer_name: Its name.
            tick_pos: A tick that the log still has: events after it come next.

        Returns:
            False when it was subscribed already, and was moved.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: The log has no such tick, or not any more.

        Source: PgQ 3.5.2 `pgq.register_consumer_at`.
        """
        return await self._runner.run(pgq.register_consumer_at(queue_name, consumer_name, tick_pos))

    async def unregister_consumer(self, queue_name: str, consumer_name: str) -> int:
        """Remove a consumer's subscription and its position, and those of its subconsumers.

        Returns:
            How many were removed; 0 when there was none.

        Source: PgQ 3.5.2 `pgq.unregister_consumer`.
        """
        return await self._runner.run(pgq.unregister_consumer(queue_name, consumer_name))

    async def get_consumer_info(
        self, queue_name: str | None = None, consumer_name: str | None = None
    ) -> list[ConsumerInfo]:
        """Return position and lag of consumers, by log and name; None for either means all.

        Source: PgQ 3.5.2 `pgq.get_consumer_info`.
        """
        return await self._runner.run(pgq.get_consumer_info(queue_name, consumer_name))

    async def listen_log(self, queue_name: str) -> str:
        """Let this session hear of each tick of a log, from the commit on; only on a connection.

        Returns:
            The channel's name.

        Raises:
            LogNotFoundError: There is no such log.

        Source: `sluice.listen_log`.
        """
        return await self._runner.run(logs.listen_log(queue_name))

    async def unlisten_log(self, queue_name: str) -> None:
        """Hear no more of a log's ticks.

        Source: `sluice.unlisten_log`.
        """
        await self._runner.run(logs.unlisten_log(queue_name))
