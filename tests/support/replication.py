"""A server with logical decoding, and a database with one object of each kind."""

from __future__ import annotations

import json

import psycopg

from pgsluice.embedded import EmbeddedServer
from support import value
from support.servers import Servers

PUBLICATION = "everything"
OUR_SCHEMAS = ["pgmq", "pgq", "pgq_coop", "sluice"]


def logical_server(servers: Servers, version: str) -> EmbeddedServer:
    """Return a server with wal_level = logical."""
    server = servers.get(version, "logical")
    with psycopg.connect(server.url(), autocommit=True) as connection:
        if value(connection, "show wal_level") == "logical":
            return server
        connection.execute("alter system set wal_level = 'logical'")
        connection.execute("alter system set max_prepared_transactions = 10")
    server.stop()
    server.start()
    return server


def make_everything(connection: psycopg.Connection) -> None:
    """Create one queue, log, group and setting of each kind, with a row in nearly every table."""
    connection.execute("set client_min_messages = 'error'")
    make_queues(connection)
    make_settings(connection)
    make_logs(connection)


def make_queues(connection: psycopg.Connection) -> None:
    """Create queues of every kind, each with a message in the queue and one in the archive."""
    connection.execute(
        """
        select pgmq.create('orders'), pgmq.create('target'), pgmq.create('limited'), pgmq.create_unlogged('sessions'),
            pgmq.create_partitioned('by_id', '100', '1000'),
            pgmq.create_partitioned('by_time', '1 day', '10 days'),
            pgmq.create('converted_by_id'), pgmq.create('converted_by_time')
        """
    )
    for queue in ("orders", "sessions", "by_id", "by_time", "converted_by_id", "converted_by_time"):
        connection.execute(
            "select pgmq.archive(%s, pgmq.send(%s, '1')), pgmq.send(%s, '2')", (queue,) * 3
        )
    connection.execute("select pgmq.convert_archive_partitioned('converted_by_id', '100', '1000')")
    connection.execute(
        "select pgmq.convert_archive_partitioned('converted_by_time', '1 day', '10 days')"
    )


def make_settings(connection: psycopg.Connection) -> None:
    """Create all settings of queues, and rows in the ledgers of queues."""
    for call in (
        "pgmq.bind_topic('order.*', 'orders')",
        "pgmq.enable_notify_insert('orders', 100)",
        "pgmq.create_fifo_index('orders')",
        "sluice.set_queue_options('orders', '{\"archive_retention\": \"1 day\"}')",
        "sluice.set_queue_options('orders', '{\"deduplication_window\": \"1 hour\"}')",
        "sluice.set_queue_options('sessions', '{\"deduplication_window\": \"1 hour\"}')",
        "sluice.send('orders', '3', 'a key')",
        "sluice.send('sessions', '3', 'a key')",
        "sluice.set_queue_options('orders', '{\"max_attempts\": 3}')",
        'sluice.set_queue_options(\'limited\', \'{"rate": 100, "key_concurrency": 1, "when_waiting": "park"}\')',
        'sluice.set_queue_options(\'limited\', \'{"paused": true, "pause_reason": "a reason"}\')',
        "sluice.report_worker('w', 'app', 'host', 1, '1', '{}', null, '1 s')",
        "sluice.create_export('orders', 'lake', '/lake', 'its id')",
        "sluice.schedule('nightly', 'orders', '{}', every => '1 hour')",
        "sluice.once('a handler', 'a key')",
        "sluice.sink_commit('importer', 1)",
        "sluice.create_stage('importer', 2, array['message'])",
    ):
        connection.execute(f"select {call}".encode())


def make_logs(connection: psycopg.Connection) -> None:
    """Create logs with consumers and groups of each kind, retries and delayed events."""
    connection.execute("select pgq.create_queue('changes'), pgq.create_queue('spare')")
    connection.execute(
        """update pgq.queue
        set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0', queue_rotation_period = '0'"""
    )
    connection.execute("create table public.account (id integer primary key, amount integer)")
    for call in (
        "pgq.register_consumer('changes', 'plain')",
        "pgq_coop.register_subconsumer('changes', 'coop', 'first')",
        "sluice.set_log_options('changes', '{\"max_lag_events\": 1000000}')",
        "sluice.capture('public.account', 'changes')",
        "sluice.schedule('beat', 'changes', event => '{\"ev_type\": \"beat\", \"ev_data\": \"{}\"}', every => '1 hour')",
        "sluice.insert_event('changes', 't', 'later', delay => '1 hour')",
    ):
        connection.execute(f"select {call}".encode())
    for group, options in {
        "mail": {},
        "blocked": {"key": "ev_type"},
        "parked": {"key": "ev_extra1", "when_waiting": "park"},
    }.items():
        connection.execute(
            "select sluice.create_group('changes', %s, %s)", (group, json.dumps(options))
        )


def tables_without_identity(connection: psycopg.Connection) -> list[str]:
    """Return our publishable tables without a replica identity; rows of a partitioned table are published with that of their partition."""
    found = connection.execute(
        """
        select c.oid::regclass::text
        from pg_class as c
        where c.relnamespace = any (%s::regnamespace[])
          and c.relkind = 'r'
          and c.relpersistence = 'p' -- others cannot be published
          and not (
              c.relreplident = 'f'
              or exists (
                  select
                  from pg_index as i
                  where i.indrelid = c.oid
                    and case c.relreplident when 'd' then i.indisprimary when 'i' then i.indisreplident end
              )
          )
        order by 1
        """,
        (OUR_SCHEMAS,),
    ).fetchall()
    return [name for (name,) in found]
