create or replace function pgmq.update_notify_insert(queue_name text, throttle_interval_ms integer)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if throttle_interval_ms < 0 then
        raise exception using
            message = format('throttle_interval_ms must be non-negative, got: %s', throttle_interval_ms),
            hint = 'use 0 to notify of every statement, or a number of milliseconds';
    end if;
    perform from pgmq.meta as m where m.queue_name = update_notify_insert.queue_name;
    if not found then
        raise exception using
            table = coalesce(queue_name, 'NULL'),
            datatype = 'QU003',
            message = format(
                'Queue "%s" does not exist. Create the queue first using pgmq.create()',
                coalesce(queue_name, '<NULL>')
            ),
            hint = 'pgmq.list_queues() lists the existing queues; names are case-sensitive';
    end if;

    update pgmq.notify_insert_throttle as t
    set throttle_interval_ms = update_notify_insert.throttle_interval_ms,
        last_notified_at = to_timestamp(0)
    where t.queue_name = update_notify_insert.queue_name;
    if not found then
        raise exception using
            message = format(
                'Queue "%s" does not have notify_insert enabled. '
                    'Enable it first using pgmq.enable_notify_insert()',
                queue_name
            ),
            hint = format('call pgmq.enable_notify_insert(%L, %s)', queue_name, throttle_interval_ms);
    end if;
    perform setval(to_regclass(pgmq._notify_sequence(queue_name)), 1, false);
end;
$$;

comment on function pgmq.update_notify_insert(text, integer) is
    'Change the throttle interval of notifications; the next message notifies.';
revoke execute on function pgmq.update_notify_insert(text, integer) from public;
grant execute on function pgmq.update_notify_insert(text, integer) to sluice_admin;
