# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""The methods of the event log for cooperative consumers: several readers that share one subscription."""

from __future__ import annotations

from datetime import timedelta

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import pgq_coop


class Cooperation:
    """Subconsumers: each gets batches that no other of its consumer gets; a part of `EventLog`."""

    _runner: Runner

    def register_subconsumer(
        self, queue_name: str, consumer_name: str, subconsumer_name: str
    ) -> bool:
        """Register a subconsumer, and its consumer if need be.

        Returns:
            False when it was registered already.

        Raises:
            LogNotFoundError: There is no such log.

        Source: pgq-coop 3.4 `pgq_coop.register_subconsumer`.
        """
        return self._runner.run(
            pgq_coop.register_subconsumer(queue_name, consumer_name, subconsumer_name)
        )

    def unregister_subconsumer(
        self,
        queue_name: str,
        consumer_name: str,
        subconsumer_name: str,
        *,
        close_batch: bool = False,
    ) -> int:
        """Remove a subconsumer.

        Args:
            queue_name: An existing log.
            consumer_name: Its consumer, which stays.
            subconsumer_name: The one to remove.
            close_batch: Close its open batch: nobody else gets those events.

        Returns:
            How many were removed, 0 or 1.

        Raises:
            LogStateError: It has an open batch and `close_batch` is False.

        Source: pgq-coop 3.4 `pgq_coop.unregister_subconsumer`.
        """
        return self._runner.run(
            pgq_coop.unregister_subconsumer(
                queue_name, consumer_name, subconsumer_name, int(close_batch)
            )
        )

    def coop_next_batch(
        self,
        queue_name: str,
        consumer_name: str,
        subconsumer_name: str,
        *,
        dead_interval: timedelta | None = None,
    ) -> int | None:
        """Open the subconsumer's next batch, or return the one that is open. Registers it if need be.

        Args:
            queue_name: An existing log.
            consumer_name: The consumer whose events are shared out.
            subconsumer_name: The one that asks.
            dead_interval: Take over the batch of a subconsumer that was not active for so long; None: of nobody.

        Returns:
            The batch_id, or None when there is nothing to do.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: The consumer itself has a batch open.

        Source: pgq-coop 3.4 `pgq_coop.next_batch`; differences in sql/pgq/README.md.
        """
        return self._runner.run(
            pgq_coop.next_batch(queue_name, consumer_name, subconsumer_name, dead_interval)
        )

    def coop_next_batch_custom(
        self,
        queue_name: str,
        consumer_name: str,
        subconsumer_name: str,
        *,
        min_lag: timedelta | None = None,
        min_count: int | None = None,
        min_interval: timedelta | None = None,
        dead_interval: timedelta | None = None,
    ) -> int | None:
        """Open a batch as `coop_next_batch` does, collected as `next_batch_custom` does.

        Returns:
            The batch_id, or None when there is nothing to do.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: The consumer itself has a batch open.

        Source: pgq-coop 3.4 `pgq_coop.next_batch_custom`.
        """
        return self._runner.run(
            pgq_coop.next_batch_custom(
                queue_name,
                consumer_name,
                subconsumer_name,
                min_lag,
                min_count,
                min_interval,
                dead_interval,
            )
        )

    def coop_finish_batch(self, batch_id: int) -> bool:
        """Close a subconsumer's batch.

        Returns:
            False when it was not open, as after another subconsumer took it over.

        Source: pgq-coop 3.4 `pgq_coop.finish_batch`.
        """
        return self._runner.run(pgq_coop.finish_batch(batch_id))
