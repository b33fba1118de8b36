"""Connections whose factories of cursors and rows are the application's own."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.rows import dict_row, scalar_row

from pgsluice import NewEvent, WorkQueue, schema
from pgsluice.client.calls.producing import COPY_FROM_EVENTS
from pgsluice.ops.doctor.diagnosis import diagnose

FACTORIES = {
    "sync": (psycopg.RawCursor, psycopg.RawServerCursor),
    "async": (psycopg.AsyncRawCursor, psycopg.AsyncRawServerCursor),
}


def test_clients_work_on_a_connection_with_raw_cursors_and_rows_as_dictionaries(make, urls):
    caller = make.connection(urls("functions"), autocommit=True)
    connection = caller.source._inner
    connection.row_factory = dict_row
    connection.cursor_factory, connection.server_cursor_factory = FACTORIES[make.style]

    caller.queue.create("raw")
    caller.queue.send("raw", {"percent": "%s"})
    (message,) = caller.queue.read("raw", 30)
    caller.log.create("raw")
    caller.log.register_consumer("raw", "c")
    caller.log.insert_many("raw", [NewEvent("t", str(n)) for n in range(COPY_FROM_EVENTS)])
    caller.log.force_tick("raw")
    caller.log.ticker("raw")
    batch_id = caller.log.next_batch("raw", "c")

    assert message.message == {"percent": "%s"}
    assert len(caller.log.get_batch_events(batch_id)) == COPY_FROM_EVENTS
    assert len(caller.log.get_batch_page(batch_id, 0, 10)) == 10


@pytest.mark.slow
def test_the_installer_and_doctor_work_on_a_connection_with_raw_cursors(empty_database):
    with empty_database.connect(autocommit=True) as connection:
        connection.cursor_factory = psycopg.RawCursor
        connection.row_factory = scalar_row
        schema.install(connection)
        WorkQueue(connection).create("orders")

        assert schema.verify(connection) == ()
        assert {finding.status for finding in diagnose(connection)} <= {"ok", "warn"}
        schema.uninstall(connection, drop_data=True)
