"""Names that do not fit into an index are refused with their length and the limit."""

from __future__ import annotations

import psycopg
import pytest

from support import value

LONG = "(select string_agg(md5(n::text), '') from generate_series(1, 300) as n)"
CALLS = {
    f"pgq.create_queue({LONG})": "name of the event log",
    f"pgq.register_consumer('log', {LONG})": "name of the consumer",
    f"pgq_coop.register_subconsumer('log', 'c', {LONG})": "name of the consumer",
    f"sluice.create_group('log', {LONG})": "name of the consumer",
    f"sluice.hold_pipeline('log', {LONG}, 'events', 'lake', pg_backend_pid())": "name of the consumer",
    f"sluice.create_export('orders', {LONG}, 'lake', 'id')": "name of the export",
    f"sluice.report_worker({LONG}, 'a', 'h', 1, '1', '{{}}', 1, '1 s')": "worker_id",
    f"sluice.once({LONG}, 'k')": "handler",
    f"sluice.sink_position({LONG})": "sink_id",
    f"sluice.queue_stream_start({LONG}, 'orders')": "stream name",
}


def test_a_name_of_nine_kilobytes_is_refused_with_the_limit(connection):
    connection.execute("select pgmq.create('orders'), pgq.create_queue('log')")

    for call, what in CALLS.items():
        with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
            connection.execute(f"select {call}")
        length = 9602 if "subconsumer" in call else 9600
        assert caught.value.diag.message_primary == f"{what} has {length} bytes"
        assert "1024 bytes" in caught.value.diag.message_hint


@pytest.mark.parametrize("create", ["create", "create_unlogged", "create_partitioned"])
def test_a_queue_name_of_nine_kilobytes_gets_the_error_of_a_long_name(connection, create):
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(f"select pgmq.{create}({LONG})")

    assert "queue name is too long" in caught.value.diag.message_primary
    assert value(connection, f"select pgmq.drop_queue({LONG})") is False


def test_names_of_the_full_length_work_together(connection):
    name = value(connection, f"select left({LONG}, 1024)")
    options = '{"key": "$.k"}'
    connection.execute("select pgq.create_queue(%s)", [name])
    connection.execute("select sluice.create_group(%s, %s, %s::jsonb)", [name, name, options])

    assert value(connection, "select group_name from sluice.share_group") == name
