"""The methods of the event log about events that wait for their time."""

from __future__ import annotations

from datetime import datetime

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import delayed
from pgsluice.client.log_records import DelayedEvent, NewEvent


class AsyncDelayed:
    """Appending events at a time to come; a part of `AsyncEventLog`."""

    _runner: AsyncRunner

    async def insert_delayed_event(
        self,
        queue_name: str,
        ev_type: str | None,
        ev_data: str | None,
        delay: int | datetime,
        *,
        ev_extra1: str | None = None,
        ev_extra2: str | None = None,
        ev_extra3: str | None = None,
        ev_extra4: str | None = None,
    ) -> int | None:
        """Append one event at a time to come.

        When it is due, maintenance puts it into the log, or the next claim of a share group that finds too little; then
        it gets its ev_id. Its ev_time is when this was called. Any number may wait.

        Args:
            queue_name: An existing log.
            ev_type: What it is.
            ev_data: What it says; text, JSON by convention.
            delay: Seconds until it is due, 0 or more, or the time when it is (with a time zone).
            ev_extra1: More of it, as are the next three.

        Returns:
            None while it waits; its ev_id when it is due already and was appended at once.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: The log is closed for events, or takes no more of them from one transaction. One that waits
                comes also into a log that was closed meanwhile.
            ArgumentError: The delay is negative, not whole, or a time without a zone. Nothing was inserted.
            PayloadError: A field is no text that PostgreSQL can store. Nothing was inserted.

        Source: `sluice.insert_event`.
        """
        event = NewEvent(ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
        return await self._runner.run(delayed.insert_event(queue_name, event, delay))

    async def list_delayed(
        self,
        queue_name: str,
        *,
        qty: int = 100,
        after_due_at: datetime | None = None,
        after_delayed_id: int | None = None,
    ) -> list[DelayedEvent]:
        """Return a page of the events that wait for their time, the next one first.

        Args:
            queue_name: An existing log.
            qty: The most to return, 1 or more.
            after_due_at: Only those that are due later; None: from the next one on.
            after_delayed_id: Also those due at `after_due_at` with a higher id; None: not.

        Returns:
            0 to `qty` events; fewer than `qty`: there are no more. Where another log has millions that wait, this reads
            those of them that are due before.

        Raises:
            LogNotFoundError: There is no such log.
            ArgumentError: `qty` is out of range, or the time has no zone.

        Source: `sluice.list_delayed`.
        """
        return await self._runner.run(
            delayed.list_delayed(queue_name, qty, after_due_at, after_delayed_id)
        )

    async def count_delayed(self, queue_name: str) -> int:
        """Return how many events of a log wait for their time; it reads those of all logs, about 3 s for a million.

        Raises:
            LogNotFoundError: There is no such log.

        Source: `sluice.count_delayed`.
        """
        return await self._runner.run(delayed.count_delayed(queue_name))
