create or replace function pgmq.list_notify_insert_throttles()
returns table (queue_name text, throttle_interval_ms integer, last_notified_at timestamptz)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select
        t.queue_name::text,
        t.throttle_interval_ms,
        -- The last notification, as pgmq.notify_queue_listeners stores it: milliseconds in the bits above the lowest
        -- 20.
        coalesce(
            to_timestamp((pg_sequence_last_value(to_regclass(pgmq._notify_sequence(t.queue_name::text))) >> 20) / 1000.0),
            t.last_notified_at
        )
    from pgmq.notify_insert_throttle as t
    order by t.queue_name;
$$;

comment on function pgmq.list_notify_insert_throttles() is
    'List the queues that notify, by name: the throttle interval and the last notification, 1970 if there was none.';
revoke execute on function pgmq.list_notify_insert_throttles() from public;
grant execute on function pgmq.list_notify_insert_throttles() to sluice_admin, sluice_writer, sluice_reader, sluice_monitor;
