"""The methods of the event log that append many events at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgsluice.client._async.runner import AsyncRunner
from pgsluice.client.calls import producing
from pgsluice.client.log_records import NewEvent


class AsyncProducing:
    """Appending many events at once; a part of `AsyncEventLog`."""

    _runner: AsyncRunner

    async def insert_events(self, queue_name: str, events: Sequence[NewEvent]) -> list[int]:
        """Append events; consumers get them after the commit and the tick that follows.

        Args:
            queue_name: An existing log.
            events: Any number; they are sent in one statement, so it has to fit into memory here and on the server.

        Returns:
            Their ev_ids, in the order of the events.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: The log is closed for events, or takes fewer of them from one transaction.
            PayloadError: A field is no text that PostgreSQL can store. Nothing was inserted.

        Source: `sluice.insert_events`.
        """
        return await self._runner.run(producing.insert_events(queue_name, events))

    async def insert_many(self, queue_name: str, events: Iterable[NewEvent]) -> int:
        """Append any number of events, by COPY where there are many.

        All of them are appended, or none: on a pool, or in autocommit mode, they are a transaction of their own. When
        this fails in a transaction of the caller's, that has to be rolled back.

        Args:
            queue_name: An existing log.
            events: Taken one by one, so that it may be a generator over more than fits into memory. It must not use
                this connection.

        Returns:
            How many there were.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: The log is closed for events. Its limit of events per transaction holds for fewer than
                200 of them: a COPY is not counted.
            PayloadError: A field is no text that PostgreSQL can store. Nothing was inserted.

        Source: `sluice.insert_events` and `pgq.current_event_table`.
        """
        return await self._runner.run_or_copy(producing.insert_many(queue_name, events))
