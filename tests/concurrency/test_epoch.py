"""Transaction ids beyond 32 bits, and the transition to a new epoch."""

from __future__ import annotations

import psycopg
import pytest

from support import rows, value
from support.epoch import EPOCH, go_to_the_end_of_an_epoch
from support.log import consume_all
from support.servers import TEMPLATE, new_database

BOUNDARY = (EPOCH + 1) << 32


def next_id(connection: psycopg.Connection) -> int:
    return value(connection, "select pg_current_xact_id()::text::bigint")


@pytest.mark.slow
def test_a_log_crosses_the_boundary_of_an_epoch(servers):
    """Late writers, ticks, rotations and a retried event, before and after the boundary."""
    server = servers.get("18", "boundary")
    go_to_the_end_of_an_epoch(server)
    with (
        new_database(server, TEMPLATE) as database,
        database.connect() as connection,
        database.connect(autocommit=False) as late,
    ):
        connection.execute("select pgq.create_queue('changes')")
        connection.execute("update pgq.queue set queue_rotation_period = '0'")
        connection.execute("select pgq.register_consumer('changes', 'lake')")
        late.execute("select pgq.insert_event('changes', 't', 'late')")
        connection.execute("select pgq.insert_event('changes', 't', 'again')")
        connection.execute("select sluice.log_tick('changes')")
        batch = value(connection, "select pgq.next_batch('changes', 'lake')")
        connection.execute("select pgq.event_retry(%s, 2, 0)", (batch,))
        connection.execute("select pgq.finish_batch(%s)", (batch,))
        assert next_id(connection) < BOUNDARY

        written, delivered, behind = [1, 2], [], 0
        while behind < 20:
            written.append(value(connection, "select pgq.insert_event('changes', 't', 'd')"))
            connection.execute("select sluice.log_tick('changes')")
            for ids in consume_all(connection):
                delivered += ids
            connection.execute("select * from sluice.rotate()")
            behind += next_id(connection) > BOUNDARY
            if behind == 5:
                late.commit()
                assert value(connection, "select pgq.maint_retry_events()") == 1

        assert sorted(delivered) == written
        assert (
            rows(
                connection,
                "select action from sluice.rotate() where action = 'kept'",
            )
            == []
        )
        connection.execute("select pgq.insert_event('changes', 't', 'd')")
        assert (
            value(
                connection,
                "select ev_txid::text::bigint from pgq.event_1 order by ev_id desc limit 1",
            )
            > BOUNDARY
        )
