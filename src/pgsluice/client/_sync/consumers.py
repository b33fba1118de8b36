# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""The methods of the event log for who reads it, and how far they are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import logs, pgq, share_groups
from pgsluice.client.group_records import GroupInfo
from pgsluice.client.log_records import ConsumerInfo, ConsumerState, LogPolicy


class Consumers:
    """Subscriptions and positions; a part of `EventLog`."""

    _runner: Runner

    def register_consumer(self, queue_name: str, consumer_name: str) -> bool:
        """Subscribe a consumer, from the latest tick on.

        Returns:
            False when it was subscribed already; its position is kept.

        Raises:
            LogNotFoundError: There is no such log.

        Source: PgQ 3.5.2 `pgq.register_consumer`.
        """
        return self._runner.run(pgq.register_consumer(queue_name, consumer_name))

    def register_consumer_at(self, queue_name: str, consumer_name: str, tick_pos: int) -> bool:
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
        return self._runner.run(pgq.register_consumer_at(queue_name, consumer_name, tick_pos))

    def unregister_consumer(self, queue_name: str, consumer_name: str) -> int:
        """Remove a consumer's subscription and its position, and those of its subconsumers.

        Returns:
            How many were removed; 0 when there was none.

        Source: PgQ 3.5.2 `pgq.unregister_consumer`.
        """
        return self._runner.run(pgq.unregister_consumer(queue_name, consumer_name))

    def get_consumer_info(
        self, queue_name: str | None = None, consumer_name: str | None = None
    ) -> list[ConsumerInfo]:
        """Return position and lag of consumers, by log and name; None for either means all.

        Source: PgQ 3.5.2 `pgq.get_consumer_info`.
        """
        return self._runner.run(pgq.get_consumer_info(queue_name, consumer_name))

    def list_consumers(self, queue_name: str | None = None) -> list[ConsumerState]:
        """Return how far behind consumers are and what they pin, by log and name; None means all logs.

        Source: `sluice.list_consumers`.
        """
        return self._runner.run(logs.list_consumers(queue_name))

    def list_groups(self, queue_name: str | None = None) -> list[GroupInfo]:
        """Return the share groups of one log, or of all, by log and name: settings, and how far behind they are.

        Raises:
            LogNotFoundError: There is no such log.

        Source: `sluice.list_groups`.
        """
        return self._runner.run(share_groups.list_groups(queue_name))

    def set_log_policy(
        self,
        queue_name: str,
        *,
        max_lag_bytes: int | None = None,
        max_lag_events: int | None = None,
        max_lag_time: timedelta | None = None,
        keepers: Sequence[str] = (),
    ) -> None:
        """Say what a rotation does with consumers of a log that fall behind; replaces what was said before.

        Without a limit the log keeps everything for its consumers, and grows. One that is beyond a limit loses its
        position, so that its events can go: its next call raises PositionLostError.

        Args:
            queue_name: An existing log.
            max_lag_bytes: Give up a consumer that pins more, 1 or more.
            max_lag_events: Give up one that has more to read, 1 or more.
            max_lag_time: Give up one whose position is older.
            keepers: Consumers that are never given up. While one of them is not registered, nothing is emptied.

        Raises:
            LogNotFoundError: There is no such log.
            ArgumentError: A limit is not positive.

        Source: `sluice.set_log_policy`.
        """
        self._runner.run(
            logs.set_log_policy(queue_name, max_lag_bytes, max_lag_events, max_lag_time, keepers)
        )

    def list_log_policies(self) -> list[LogPolicy]:
        """Return the policy of each log, by name.

        Source: `sluice.list_log_policies`.
        """
        return self._runner.run(logs.list_log_policies())

    def listen_log(self, queue_name: str) -> str:
        """Let this session hear of each tick of a log, from the commit on; only on a connection.

        Returns:
            The channel's name.

        Raises:
            LogNotFoundError: There is no such log.

        Source: `sluice.listen_log`.
        """
        return self._runner.run(logs.listen_log(queue_name))

    def unlisten_log(self, queue_name: str) -> None:
        """Hear no more of a log's ticks.

        Source: `sluice.unlisten_log`.
        """
        self._runner.run(logs.unlisten_log(queue_name))
