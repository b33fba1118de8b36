"""sluice.log_now: an offset for a reader by snapshots; test_durable_offsets.py covers crashes."""

from __future__ import annotations

import psycopg
import pytest

from pgsluice.spark.snapshots import Snapshot
from support import value


def test_the_offset_sees_what_is_committed_and_not_what_is_running(database, connection):
    with database.connect(autocommit=False) as running:
        open_id = value(running, "select pg_current_xact_id()::text::bigint")
        committed = value(connection, "select pg_current_xact_id()::text::bigint")
        with connection.transaction():
            own = value(connection, "select pg_current_xact_id()::text::bigint")
            offset = Snapshot.parse(value(connection, "select sluice.log_now()::text"))

    assert offset.sees(committed)
    assert not offset.sees(open_id)
    assert not offset.sees(own)


def test_a_read_only_transaction_is_refused(connection):
    connection.execute("set default_transaction_read_only = on")
    with pytest.raises(psycopg.DatabaseError, match="in a read-only transaction") as caught:
        connection.execute("select sluice.log_now()")
    assert caught.value.sqlstate == "PQ004"
    assert "read by ticks" in caught.value.diag.message_hint


def test_the_commit_is_synchronous_also_where_the_session_has_that_off(connection):
    connection.execute("set synchronous_commit = off")
    with connection.transaction():
        connection.execute("select sluice.log_now()")
        assert value(connection, "show synchronous_commit") == "on"
    assert value(connection, "show synchronous_commit") == "off"
