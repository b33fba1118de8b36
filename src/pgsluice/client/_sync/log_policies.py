# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""The methods of the event log about what it keeps and for whom."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import log_policies
from pgsluice.client.segment_records import ConsumerLag, LogPolicy, Segment


class LogPolicies:
    """What a log keeps, and when it stops to keep it for a consumer; a part of `EventLog`."""

    _runner: Runner

    def list_segments(self, queue_name: str) -> list[Segment]:
        """Return the segments of a log, by number, with the reason why each cannot be emptied.

        Raises:
            LogNotFoundError: There is no such log.

        Source: `sluice.list_segments`.
        """
        return self._runner.run(log_policies.list_segments(queue_name))

    def list_consumers(self, queue_name: str | None = None) -> list[ConsumerLag]:
        """Return the consumers of one log, or of all, by log and name, with their lag and what is kept for them.

        Source: `sluice.list_consumers`.
        """
        return self._runner.run(log_policies.list_consumers(queue_name))

    def set_log_policy(
        self,
        queue_name: str,
        *,
        max_lag_bytes: int | None = None,
        max_lag_events: int | None = None,
        max_lag_time: timedelta | None = None,
        keepers: Sequence[str] = (),
    ) -> None:
        """Say when consumers that are behind are given up, in place of what was said before.

        A rotation gives up who is beyond a limit: its position is lost, its events may go. Without limits, as from the
        beginning, a log keeps everything until all have read it.

        Args:
            queue_name: An existing log.
            max_lag_bytes: Size of the segments kept for one consumer, the current one left out.
            max_lag_events: Events between a consumer and the newest tick.
            max_lag_time: Time between a consumer and the newest tick.
            keepers: Consumers that are never given up. Nothing is emptied before they have read it, not even before
                they are registered: archivers.

        Raises:
            LogNotFoundError: There is no such log.
            ServerError: A limit is not positive.

        Source: `sluice.set_log_policy`.
        """
        self._runner.run(
            log_policies.set_log_policy(
                queue_name, max_lag_bytes, max_lag_events, max_lag_time, keepers
            )
        )

    def list_log_policies(self) -> list[LogPolicy]:
        """Return the policy of every log, by name.

        Source: `sluice.list_log_policies`.
        """
        return self._runner.run(log_policies.list_log_policies())

    def after_restore(self, queue_name: str | None = None) -> dict[str, int]:
        """Repair one log, or all, after a dump was restored into another server.

        Ticks, positions and events are marked with transaction ids, which belong to one server. Consumers go on where
        they were, open batches stay open.

        Returns:
            The number of events of each log that needed it, by name.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: The log of that name needs no repair.

        Source: `sluice.after_restore`.
        """
        return self._runner.run(log_policies.after_restore(queue_name))
