create or replace function sluice.drop_queue_limits(queue_name text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limits_id integer;
begin
    perform pgmq.acquire_queue_lock(queue_name);
    select l.limits_id
    into v_limits_id
    from sluice.queue_limits as l
    where l.queue_table = pgmq.format_table_name(drop_queue_limits.queue_name, 'q');
    if not found then
        perform sluice._registered_name(queue_name);
        return false;
    end if;
    perform sluice._remove_limits(v_limits_id);
    perform sluice._note_action('drop_queue_limits'::text, queue_name, null::jsonb, null::bigint, null::text);
    return true;
end;
$$;

comment on function sluice.drop_queue_limits(text) is
    'Drop the limits, key order and priorities of a queue, and its parked keys; false if it had none.';
revoke execute on function sluice.drop_queue_limits(text) from public;
grant execute on function sluice.drop_queue_limits(text) to sluice_admin;
