"""Durability of results stored elsewhere: offsets, ticks, micro-batches, versions of sinks.

Covers sluice._flush_offset and pgq._commit_durably; tests/db/pgq also tests the latter.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import psycopg
import pytest

from pgsluice import schema
from pgsluice.client.calls import spark as calls
from pgsluice.client.calls import spark_claims as queue_calls
from pgsluice.embedded import EmbeddedServer
from pgsluice.spark.snapshots import Snapshot
from support import rows, value

LOG = "log"
# WAL is flushed only by synchronous commits.
SLOW_FLUSHES = {"wal_writer_delay": "10s", "wal_writer_flush_after": "1GB", "autovacuum": "off"}
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def durable_server(servers_folder) -> Iterator[EmbeddedServer]:
    """A server with fsync on, which tests crash."""
    server = EmbeddedServer(servers_folder / "durable", version=18, options=SLOW_FLUSHES)
    server.start()
    yield server
    server.stop("immediate")


@pytest.fixture
def crashing(durable_server) -> EmbeddedServer:
    """The server with an empty, flushed log in its database `postgres`."""
    with psycopg.connect(durable_server.url(), autocommit=True) as connection:
        schema.install(connection)
        connection.execute("select pgq.drop_queue(queue_name, true) from pgq.queue")
        connection.execute("select pgq.create_queue(%s)", (LOG,))
        connection.execute("checkpoint")
    return durable_server


def crash(server: EmbeddedServer) -> None:
    server.stop("immediate")
    server.start()


def connect(server: EmbeddedServer, *, asynchronous: bool = False) -> psycopg.Connection:
    options = "-c synchronous_commit=off" if asynchronous else ""
    return psycopg.connect(server.url(), autocommit=True, options=options)


def burn(connection: psycopg.Connection, count: int) -> None:
    """Assign transaction ids that leave no flushed WAL."""
    for number in range(count):
        with connection.transaction(force_rollback=number % 2 == 0):
            connection.execute("select pg_current_xact_id()")


def ask(connection: psycopg.Connection, call: calls.Call):
    return call.read_rows(connection.execute(call.sql, call.parameters).fetchall())


def commit_events(server: EmbeddedServer, count: int) -> list[str]:
    data = [f"event {next(_numbers)}" for _ in range(count)]
    with connect(server) as connection:
        for text in data:
            connection.execute("select pgq.insert_event(%s, 't', %s)", (LOG, text))
    return data


def read(connection: psycopg.Connection, after: str) -> list[str]:
    """Return the events from an offset to now."""
    now = value(connection, "select pg_current_snapshot()::text")
    queries = ask(
        connection,
        calls.log_slices(LOG, after, now, slice_count=1, slice_events_min=1, columns=["ev_data"]),
    )
    return [data for query in queries for (data,) in rows(connection, query)]


def start(connection: psycopg.Connection) -> str:
    """Return the offset before the first event."""
    return value(connection, "select (sluice.log_start(%s, null, '1')).tick_snapshot::text", LOG)


def offset_now(connection: psycopg.Connection) -> str:
    return ask(connection, calls.log_cut(LOG, None, None, None))[0]


def offset_of_a_cut(connection: psycopg.Connection) -> str:
    text, txid = ask(connection, calls.log_cut(LOG, start(connection), None, None))
    return str(Snapshot.parse(text).cut(txid))


@pytest.mark.parametrize("take", [offset_now, offset_of_a_cut])
def test_an_offset_loses_no_event_that_is_committed_after_a_crash(crashing, take):
    with connect(crashing, asynchronous=True) as connection:
        connection.execute("select pgq.insert_event(%s, 't', 'seen')", (LOG,))
        burn(connection, 200)
        offset = take(connection)
    crash(crashing)
    committed = commit_events(crashing, 20)
    with connect(crashing) as connection:
        assert sorted(read(connection, offset)) == sorted(committed)
        assert read(connection, start(connection)) == ["seen", *committed]


def test_a_tick_that_was_seen_survives_a_crash_with_its_events(crashing):
    with connect(crashing, asynchronous=True) as connection:
        for _ in range(3):
            connection.execute("select pgq.insert_event(%s, 't', 'seen')", (LOG,))
            burn(connection, 20)
            connection.execute("select * from sluice.tick()")
        ticks = rows(connection, "select tick_id, tick_snapshot::text from pgq.tick order by 1")
        assert len(ticks) == 4
        # A tick of an external ticker, as in a copy of a log.
        connection.execute("select pgq.set_queue_config(%s, 'external_ticker', 'true')", (LOG,))
        connection.execute("select pgq.ticker(%s, 9, now(), 3)", (LOG,))
        ticks += rows(
            connection, "select tick_id, tick_snapshot::text from pgq.tick where tick_id = 9"
        )
    crash(crashing)
    with connect(crashing) as connection:
        kept = rows(connection, "select tick_id, tick_snapshot::text from pgq.tick order by 1")
        assert kept == ticks
        committed = commit_events(crashing, 20)
        assert sorted(read(connection, ticks[-1][1])) == sorted(committed)


@pytest.mark.slow
def test_a_claimed_micro_batch_of_a_queue_survives_a_crash(crashing):
    with connect(crashing, asynchronous=True) as connection:
        connection.execute("select pgmq.create('work')")
        connection.execute("checkpoint")
        connection.execute("select pgmq.send('work', '1')")
        stream = ask(connection, queue_calls.queue_stream_start("lake", "work"))[0]
        claimed = ask(connection, queue_calls.queue_stream_claim(stream, 0, 10))
        assert claimed is not None
    crash(crashing)
    with connect(crashing) as connection:
        connection.execute("select pgmq.send('work', '2')")
        again = ask(connection, queue_calls.queue_stream_claim(stream, 0, 10))
        assert again is not None
        assert (again.seq, again.messages) == (claimed.seq, claimed.messages)
        connection.execute("select pgmq.drop_queue('work')")


@pytest.mark.slow
def test_a_version_that_a_sink_committed_survives_a_crash(crashing):
    with connect(crashing, asynchronous=True) as connection:
        connection.execute("select sluice.sink_commit('lake', %s)", (next(_numbers),))
        position = value(connection, "select sluice.sink_position('lake')")
    crash(crashing)
    with connect(crashing) as connection:
        assert value(connection, "select sluice.sink_position('lake')") == position
