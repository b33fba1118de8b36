# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""The methods of a share group about its dead events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from pgsluice.client._sync.runner import Runner
from pgsluice.client.calls import dead_events
from pgsluice.client.log_records import DeadEvent, RedrivenEvent


class DeadEvents:
    """Looking at events that failed for good, and sending them again; a part of `ShareGroup`."""

    _runner: Runner
    _name: tuple[str, str]

    def browse_dead_events(
        self,
        *,
        after_dead_event_id: int | None = None,
        qty: int = 100,
        ev_type: str | None = None,
        reason: str | None = None,
        ev_ids: Sequence[int] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[DeadEvent]:
        """Return a page of the group's dead events; those of a dropped group or log are still there.

        Args:
            after_dead_event_id: Only those with a higher id; None: from the first on.
            qty: The most to return, 1 or more.
            ev_type: Only events of this type.
            reason: Only those that were given up for this reason.
            ev_ids: Only events with these ids in the log.
            since: Only those that were given up at this time or later, with a time zone.
            until: Only those that were given up before this time, with a time zone.

        Returns:
            0 to `qty` dead events, lowest `dead_event_id` first; fewer than `qty`: there are no more.

        Raises:
            ArgumentError: `qty` or an id is out of range, or a time has no zone.

        Source: `sluice.browse_dead_events`.
        """
        matching = (ev_type, reason, ev_ids, since, until)
        return self._runner.run(
            dead_events.browse_dead_events(*self._name, after_dead_event_id, qty, matching)
        )

    def count_dead_events(
        self,
        *,
        ev_type: str | None = None,
        reason: str | None = None,
        ev_ids: Sequence[int] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> int:
        """Return how many dead events of the group a filter matches.

        Args:
            ev_type: As for `browse_dead_events`, as are all others.

        Raises:
            ArgumentError: As for `browse_dead_events`.

        Source: `sluice.count_dead_events`.
        """
        matching = (ev_type, reason, ev_ids, since, until)
        return self._runner.run(dead_events.count_dead_events(*self._name, matching))

    def redrive_events(
        self, dead_event_ids: Sequence[int], *, target_queue_name: str | None = None
    ) -> list[RedrivenEvent]:
        """Move dead events back to the group, as new events that it alone gets, or into a work queue.

        In the group their attempts begin anew, and `redriven` is one more. In a queue they are messages: an object with
        the fields of the event, and the header `x-pgmq-replayed-from` with `log`, `group`, `ev_id`, `dead_event_id`,
        `dead_at`, `reason` and `redriven`. Of two that redrive the same event one moves it.

        Args:
            dead_event_ids: Their ids, of any number: all are moved in one transaction.
            target_queue_name: The work queue to move them to; None: to the group.

        Returns:
            Those that were there, lowest first, each once, with their new ev_ids or msg_ids.

        Raises:
            GroupNotFoundError: The group was dropped; a queue can still have its dead events. Nothing was moved.
            LogStateError: The log is closed for events, or takes fewer of them from one transaction. Nothing was moved.
            QueueNotFoundError: The queue does not exist; it is named. Nothing was moved.
            ArgumentError: An id is out of range.

        Source: `sluice.redrive_events`.
        """
        return self._runner.run(
            dead_events.redrive_events(*self._name, dead_event_ids, target_queue_name)
        )

    def redrive_events_matching(
        self,
        *,
        target_queue_name: str | None = None,
        after_dead_event_id: int | None = None,
        qty: int = 1000,
        ev_type: str | None = None,
        reason: str | None = None,
        ev_ids: Sequence[int] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[RedrivenEvent]:
        """Move the next dead events that a filter matches, as `redrive_events` does.

        Those that somebody else moves at this moment are skipped. Whoever repeats it until nothing is left sets
        `until`, or counts: an event that fails again at once is dead again, and there would be no end.

        Args:
            target_queue_name: The work queue to move them to; None: to the group.
            after_dead_event_id: Only those with a higher id; None: from the first on.
            qty: The most to move, 1 or more.
            ev_type: As for `browse_dead_events`, as are all others.

        Returns:
            What was moved, lowest `dead_event_id` first; the last is where the next call goes on.

        Raises:
            GroupNotFoundError: As for `redrive_events`.
            LogStateError: As for `redrive_events`.
            QueueNotFoundError: As for `redrive_events`.
            ArgumentError: As for `browse_dead_events`.

        Source: `sluice.redrive_events_matching`.
        """
        matching = (ev_type, reason, ev_ids, since, until)
        return self._runner.run(
            dead_events.redrive_events_matching(
                *self._name, target_queue_name, after_dead_event_id, qty, matching
            )
        )

    def purge_dead_events(
        self,
        *,
        older_than: timedelta | None = None,
        dead_event_ids: Sequence[int] | None = None,
        qty: int = 10_000,
    ) -> int:
        """Delete dead events for good: the oldest of those that are so old, or those with these ids.

        Args:
            older_than: How long ago they were given up, at least; 0 for all of them.
            dead_event_ids: Their ids; one of the two is to be given.
            qty: The most to delete, 1 or more: a long list takes several calls.

        Returns:
            How many were deleted; call it until that is 0.

        Raises:
            ArgumentError: Neither or both are given, or `qty` or an id is out of range.

        Source: `sluice.purge_dead_events`.
        """
        return self._runner.run(
            dead_events.purge_dead_events(*self._name, older_than, dead_event_ids, qty)
        )
