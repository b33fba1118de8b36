"""A stream of events whose connection breaks in the middle."""

from __future__ import annotations

import gc

import psycopg
import pytest

from pgsluice import EventLog, NewEvent
from pgsluice.errors import ConnectionFailedError


def test_a_broken_connection_is_said_and_leaves_no_open_cursor(database):
    with database.connect() as observer, database.connect() as connection:
        log = EventLog(connection)
        log.create_queue("changes")
        log.register_consumer("changes", "lake")
        log.insert_many("changes", [NewEvent("t", str(n)) for n in range(5000)])
        log.log_tick("changes")
        batch_id = log.next_batch("changes", "lake")
        assert batch_id is not None
        events = log.stream_batch_events(batch_id, fetch_qty=10)
        next(events)
        observer.execute("select pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))

        with pytest.raises((ConnectionFailedError, psycopg.OperationalError)):
            events.close()  # as who stops before the end does

        del events
        gc.collect()  # an open cursor warns here, and warnings are errors
