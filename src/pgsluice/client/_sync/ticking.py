# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""The methods of the event log that ticks and its maintenance need."""

from __future__ import annotations

from datetime import datetime

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import logs, pgq, upkeep
from pgsluice.client.calls.upkeep import ExtraMaintenance
from pgsluice.client.log_records import GroupStep, LogTick, RestoredLog, RotationStep, Segment


class Ticking:
    """What makes batches of events, and room for new ones; a part of `EventLog`."""

    _runner: Runner

    def ticker(self, queue_name: str) -> int | None:
        """Tick one log if it is time. Any number of processes may do so at once.

        Returns:
            The tick_id, or None when it is not time or another session ticks it.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: It is paused, ticked from outside, or the transaction is not READ COMMITTED.

        Source: PgQ 3.5.2 `pgq.ticker`; differences in sql/pgq/README.md.
        """
        return self._runner.run(pgq.ticker(queue_name))

    def ticker_all(self) -> int:
        """Tick every log whose time it is.

        Returns:
            How many were ticked.

        Source: PgQ 3.5.2 `pgq.ticker`.
        """
        return self._runner.run(pgq.ticker_all())

    def ticker_external(
        self, queue_name: str, tick_id: int, orig_timestamp: datetime, event_seq: int
    ) -> int:
        """Tick a log that is ticked from outside, as a copy of another log is.

        Args:
            queue_name: A log whose `queue_external_ticker` is set.
            tick_id: The other log's.
            orig_timestamp: When it was made there, with a time zone.
            event_seq: The last ev_id given out then.

        Returns:
            The tick_id.

        Raises:
            LogStateError: The log is not ticked from outside, or has this tick or a later one.

        Source: PgQ 3.5.2 `pgq.ticker`.
        """
        return self._runner.run(pgq.ticker_external(queue_name, tick_id, orig_timestamp, event_seq))

    def force_tick(self, queue_name: str) -> int | None:
        """Let the next call of `ticker` tick, whatever the log's settings; it does not tick itself.

        Returns:
            The last tick_id there is; the one to come is higher.

        Source: PgQ 3.5.2 `pgq.force_tick`.
        """
        return self._runner.run(pgq.force_tick(queue_name))

    def tick(self) -> list[LogTick]:
        """Tick every log in which anything is new, whatever its settings say.

        Not those that are paused or ticked from outside. Cheap when nothing is new: made to be called many times a
        second.

        Returns:
            The ticks that were made.

        Source: `sluice.tick`.
        """
        return self._runner.run(logs.tick())

    def wake_groups(self) -> int:
        """Notify listeners of the logs whose share groups have something new to claim, without a tick.

        For a session that calls `tick` all the time, in between: it looks after the logs whose newest tick is its own.

        Returns:
            How many logs with share groups this session has ticked.

        Source: `sluice.wake_groups`.
        """
        return self._runner.run(logs.wake_groups())

    def log_tick(self, queue_name: str) -> int:
        """Tick one log now if anything is new, whatever its settings say.

        Returns:
            The newest tick_id, which covers all that was committed before the call.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: The transaction is not READ COMMITTED.

        Source: `sluice.log_tick`.
        """
        return self._runner.run(logs.log_tick(queue_name))

    def maint_retry_events(self) -> int:
        """Move events that were asked for again, and whose time has come, back into their logs.

        Returns:
            How many were moved; call it again until it is 0.

        Source: PgQ 3.5.2 `pgq.maint_retry_events`.
        """
        return self._runner.run(pgq.maint_retry_events())

    def rotate(self, queue_name: str | None = None) -> list[RotationStep]:
        """Let events go into another segment where it is time, and empty segments that nobody needs any more.

        Waits for no lock longer than a tenth of a second: what is in use is left to a later call.

        Args:
            queue_name: An existing log; None: all.

        Returns:
            What was done, and for what was not, why.

        Raises:
            LogNotFoundError: There is no such log.

        Source: `sluice.rotate`.
        """
        return self._runner.run(logs.rotate(queue_name))

    def maintain_groups(self, queue_name: str | None = None) -> list[GroupStep]:
        """Do for share groups what claims do in passing, and empty the ledgers of claims when they have grown.

        `rotate` does it too. It wakes who waits for a claim when an event's time has come to come again, so call it as
        often as that is to be noticed. Waits for no lock longer than a tenth of a second.

        Args:
            queue_name: An existing log; None: all.

        Returns:
            What was done, and for what was not, why. A group that is being claimed from needs nothing.

        Raises:
            LogNotFoundError: There is no such log.
            GroupStateError: The transaction is not READ COMMITTED.

        Source: `sluice.maintain_groups`.
        """
        return self._runner.run(logs.maintain_groups(queue_name))

    def list_extra_maint(self) -> list[ExtraMaintenance]:
        """Return the functions that logs name in `queue_extra_maint`, in the order in which they are to be called.

        Source: `sluice.list_extra_maint`.
        """
        return self._runner.run(upkeep.list_extra_maint())

    def run_extra_maint(self, queue_name: str, function_name: str) -> bool:
        """Call a function that a log names in `queue_extra_maint`, with the log's name and this session's rights.

        Returns:
            Whether it was called; False when the log does not name it.

        Raises:
            SluiceError: What the function raises.

        Source: `sluice.run_extra_maint`.
        """
        return self._runner.run(upkeep.run_extra_maint(queue_name, function_name))

    def list_segments(self, queue_name: str) -> list[Segment]:
        """Return the segments of a log, by number: what they take, and who needs them.

        Raises:
            LogNotFoundError: There is no such log.

        Source: `sluice.list_segments`.
        """
        return self._runner.run(logs.list_segments(queue_name))

    def after_restore(self, queue_name: str | None = None) -> list[RestoredLog]:
        """Repair logs after a dump of them was restored, whose transaction ids mean nothing in this server.

        Until then they are not ticked. Consumers and events keep their places. Physical copies and pg_upgrade
        need no repair.

        Args:
            queue_name: An existing log; None: all.

        Returns:
            The logs that were repaired; those that need none are left out. Of all logs, one that cannot be repaired is
            skipped, and its `events` is None.

        Raises:
            LogNotFoundError: There is no such log.

        Source: `sluice.after_restore`.
        """
        return self._runner.run(logs.after_restore(queue_name))
