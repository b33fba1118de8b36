create or replace function pgmq.list_notify_insert_throttles()
returns table (queue_name text, throttle_interval_ms integer, last_notified_at timestamptz)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select
        t.queue_name::text,
        t.throttle_interval_ms,
        -- The claim of the last window, as pgmq.notify_queue_listeners writes it: milliseconds above 20 bits.
        coalesce(
            to_timestamp((pg_sequence_last_value(to_regclass(pgmq._notify_sequence(t.queue_name::text))) >> 20) / 1000.0),
            t.last_notified_at
        )
    from pgmq.notify_insert_throttle as t
    order by t.queue_name;
$$;

comment on function pgmq.list_notify_insert_throttles() is
    'Every queue that notifies, by name: how often at most, and when it last did; 1970 for not yet.';
revoke execute on function pgmq.list_notify_insert_throttles() from public;
grant execute on function pgmq.list_notify_insert_throttles() to sluice_admin, sluice_writer, sluice_reader, sluice_monitor;
