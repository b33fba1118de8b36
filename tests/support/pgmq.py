"""Upstream PGMQ in tests, in its current and older versions."""

from __future__ import annotations

from importlib import resources

import psycopg
import pytest

UPSTREAM_VERSION = "1.13.0"


def upstream_sql() -> str:
    """Return PGMQ's SQL from its Python package; this project contains none of it."""
    pytest.importorskip("pgmq", reason="PGMQ itself is not installed: pip install pgmq==1.1.4")
    folder = resources.files("pgmq") / "sql"
    version = (folder / "VERSION").read_text().strip()
    if version != UPSTREAM_VERSION:
        pytest.skip(f"the installed package pgmq has PGMQ {version}, not {UPSTREAM_VERSION}")
    return (folder / "pgmq.sql").read_text()


# Objects that 1.9 lacks or defines otherwise. Its functions are those that return the changed type.
_BACK_TO_1_9 = """
drop type pgmq.message_record cascade;
alter type pgmq.metrics_result drop attribute default_partition_length;
drop table pgmq.topic_bindings cascade;
drop function pgmq.bind_topic, pgmq.unbind_topic, pgmq.test_routing, pgmq.validate_routing_key,
    pgmq.validate_topic_pattern, pgmq.create_partitioned, pgmq._send_batch, pgmq._validate_batch_params,
    pgmq.update_notify_insert, pgmq.list_notify_insert_throttles,
    pgmq.send_topic(text, jsonb), pgmq.send_topic(text, jsonb, integer), pgmq.send_topic(text, jsonb, jsonb, integer),
    pgmq.list_topic_bindings(), pgmq.list_topic_bindings(text);
do $$
declare
    v_name text;
begin
    for v_name in
        select oid::regprocedure::text from pg_proc
        where pronamespace = 'pgmq'::regnamespace and proname = 'send_batch_topic'
    loop
        execute format('drop function %s', v_name);
    end loop;
    for v_name in
        select oid::regclass::text from pg_class
        where relnamespace = 'pgmq'::regnamespace and relname ~ '^[qa]_' and relkind in ('r', 'p') and not relispartition
    loop
        execute format('alter table %s drop column last_read_at', v_name);
    end loop;
end;
$$;
create type pgmq.message_record as (
    msg_id bigint, read_ct integer, enqueued_at timestamptz, vt timestamptz, message jsonb, headers jsonb
);
create function pgmq.read(queue_name text, vt integer, qty integer, conditional jsonb default '{}')
returns setof pgmq.message_record language plpgsql as $$
begin
    return query execute format(
        'update pgmq.%1$I as m set vt = clock_timestamp() + make_interval(secs => $1), read_ct = read_ct + 1
         where msg_id in (select msg_id from pgmq.%1$I where vt <= clock_timestamp() order by msg_id limit $2)
         returning msg_id, read_ct, enqueued_at, vt, message, headers',
        pgmq.format_table_name(queue_name, 'q')
    ) using vt, qty;
end;
$$;
create function pgmq.pop(queue_name text)
returns setof pgmq.message_record language plpgsql as $$
begin
    return query execute format(
        'delete from pgmq.%1$I where msg_id = (select min(msg_id) from pgmq.%1$I where vt <= clock_timestamp())
         returning msg_id, read_ct, enqueued_at, vt, message, headers',
        pgmq.format_table_name(queue_name, 'q')
    );
end;
$$;
create function pgmq.set_vt(queue_name text, msg_id bigint, vt integer)
returns setof pgmq.message_record language plpgsql as $$
begin
    return query execute format(
        'update pgmq.%I set vt = clock_timestamp() + make_interval(secs => $1) where msg_id = $2
         returning msg_id, read_ct, enqueued_at, vt, message, headers',
        pgmq.format_table_name(queue_name, 'q')
    ) using vt, msg_id;
end;
$$;
create function pgmq.create_partitioned(
    queue_name text, partition_interval text default '10000', retention_interval text default '100000'
) returns void language plpgsql as $$ begin raise 'pg_partman is required'; end; $$;
"""

# Objects that 1.5 lacks: locks, notifications.
_BACK_TO_1_5 = """
drop table pgmq.notify_insert_throttle;
drop function pgmq.enable_notify_insert, pgmq.disable_notify_insert, pgmq.acquire_queue_lock;
drop function pgmq.notify_queue_listeners cascade;
drop function pgmq.create_fifo_index, pgmq.create_fifo_indexes_all, pgmq._create_fifo_index_if_not_exists;
"""


def make_older(connection: psycopg.Connection, version: str) -> None:
    """Change an installed 1.13.0 to an older version, written by hand after its upgrade scripts.

    Types, tables, signatures and result types are those of the version; some bodies are not.
    """
    connection.execute(_BACK_TO_1_9)
    if version == "1.5":
        connection.execute(_BACK_TO_1_5)
