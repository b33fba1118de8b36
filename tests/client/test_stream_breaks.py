"""Streaming the events of a batch when the connection is lost."""

from __future__ import annotations

import gc

import psycopg
import pytest

from pgsluice import EventLog, NewEvent
from pgsluice.errors import ConnectionFailedError


def test_lost_connection_raises_and_leaves_no_open_cursor(database):
    with database.connect() as observer, database.connect() as connection:
        log = EventLog(connection)
        log.create("changes")
        log.register_consumer("changes", "lake")
        log.insert_many("changes", [NewEvent("t", str(n)) for n in range(5000)])
        log.log_tick("changes")
        batch_id = log.next_batch("changes", "lake")
        assert batch_id is not None
        events = log.stream_batch_events(batch_id, fetch_qty=10)
        next(events)
        observer.execute("select pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))

        with pytest.raises((ConnectionFailedError, psycopg.OperationalError)):
            events.close()  # as a caller that stops before the last event

        del events
        gc.collect()  # an open cursor would warn here, and warnings are errors
