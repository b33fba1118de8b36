create or replace function sluice.drop_queue_limits(queue_name text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limits sluice.queue_limits;
begin
    perform pgmq.acquire_queue_lock(queue_name);
    select l.limits_id
    into v_limits.limits_id
    from sluice.queue_limits as l
    where l.queue_table = pgmq.format_table_name(drop_queue_limits.queue_name, 'q');
    if not found then
        perform sluice._registered_name(queue_name);
        return false;
    end if;
    v_limits := sluice._lock_limits(v_limits.limits_id);
    delete from sluice.queue_limits as l where l.limits_id = v_limits.limits_id;
    v_limits.fleet_concurrency := null;
    v_limits.key_concurrency := null;
    v_limits.when_waiting := null;
    v_limits.priority_weights := null;
    perform sluice._drop_limit_indexes(v_limits);
    return true;
end;
$$;

comment on function sluice.drop_queue_limits(text) is
    'Let claims from a queue have no limits and no order of keys or priorities, and forget which keys were parked; false when it had none.';
revoke execute on function sluice.drop_queue_limits(text) from public;
grant execute on function sluice.drop_queue_limits(text) to sluice_admin;
