# Generated from _async by tools/sync_from_async.py: change it there, then `make generate`.
"""The event log: schema `pgq`."""

from __future__ import annotations

from typing import Any

from psycopg import Connection
from psycopg_pool import ConnectionPool

from pgsluice.client._sync.batches import Batches
from pgsluice.client._sync.captures import Captures
from pgsluice.client._sync.consumers import Consumers
from pgsluice.client._sync.cooperation import Cooperation
from pgsluice.client._sync.delayed import Delayed
from pgsluice.client._sync.producing import Producing
from pgsluice.client._sync.runner import Runner
from pgsluice.client._sync.ticking import Ticking
from pgsluice.client.calls import pgq
from pgsluice.client.log_records import LogInfo


class EventLog(
    Batches,
    Captures,
    Consumers,
    Cooperation,
    Delayed,
    Producing,
    Ticking,
):
    """Append events and consume them in batches between ticks.

    Every method can raise ConnectionFailedError, NotInstalledError, PrivilegeError and RetryableError.
    """

    def __init__(self, source: ConnectionPool[Any] | Connection[Any]) -> None:
        """Use a pool or a connection.

        Args:
            source: A pool: each call is a transaction of its own. A connection: each call is part of its transaction,
                and nothing is committed unless it is in autocommit mode. The caller opens and closes it.
        """
        self._runner = Runner(source)

    def create_queue(self, queue_name: str) -> bool:
        """Create an event log with its first tick.

        Returns:
            False when it existed.

        Source: PgQ 3.5.2 `pgq.create_queue`.
        """
        return self._runner.run(pgq.create_queue(queue_name))

    def drop_queue(self, queue_name: str, *, force: bool = False) -> None:
        """Drop an event log with its events.

        Args:
            queue_name: An existing log.
            force: Unregister its consumers too.

        Raises:
            LogNotFoundError: There is no such log.
            LogInUseError: It has consumers and `force` is False; they are named in the error's cause.

        Source: PgQ 3.5.2 `pgq.drop_queue`.
        """
        self._runner.run(pgq.drop_queue(queue_name, force))

    def insert_event(
        self,
        queue_name: str,
        ev_type: str | None,
        ev_data: str | None,
        *,
        ev_extra1: str | None = None,
        ev_extra2: str | None = None,
        ev_extra3: str | None = None,
        ev_extra4: str | None = None,
    ) -> int:
        """Append one event; consumers get it after the commit and the tick that follows.

        Args:
            queue_name: An existing log.
            ev_type: What it is.
            ev_data: What it says; text, JSON by convention.
            ev_extra1: More of it, as are the next three.

        Returns:
            Its ev_id.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: The log is closed for events, or takes no more of them from one transaction.
            PayloadError: A field is no text that PostgreSQL can store. Nothing was inserted.

        Source: PgQ 3.5.2 `pgq.insert_event`.
        """
        return self._runner.run(
            pgq.insert_event(
                queue_name, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
            )
        )

    def get_queue_info(self, queue_name: str | None = None) -> list[LogInfo]:
        """Return settings and state of one log, or of all, by name.

        Source: PgQ 3.5.2 `pgq.get_queue_info`.
        """
        return self._runner.run(pgq.get_queue_info(queue_name))

    def set_queue_config(self, queue_name: str, param_name: str, param_value: str) -> None:
        """Change a setting of a log.

        Args:
            queue_name: An existing log.
            param_name: One of ticker_max_count, ticker_max_lag, ticker_idle_period, ticker_paused, rotation_period,
                external_ticker.
            param_value: As PostgreSQL reads it: `500`, `3 seconds`, `true`.

        Raises:
            LogNotFoundError: There is no such log.
            ArgumentError: There is no such setting.
            PayloadError: It cannot have this value.

        Source: PgQ 3.5.2 `pgq.set_queue_config`.
        """
        self._runner.run(pgq.set_queue_config(queue_name, param_name, param_value))

    def current_event_table(self, queue_name: str) -> str:
        """Return the table that events go into now, for a COPY in the same transaction.

        Raises:
            LogNotFoundError: There is no such log.
            LogStateError: The log is closed for events.

        Source: PgQ 3.5.2 `pgq.current_event_table`; differences in sql/pgq/README.md.
        """
        return self._runner.run(pgq.current_event_table(queue_name))

    def version(self) -> str:
        """Return the version of PgQ whose contract this is, and ours; it begins with `3.5`.

        Source: PgQ 3.5.2 `pgq.version`.
        """
        return self._runner.run(pgq.version())
