-- Calls: sluice._lock_limits, sluice._drop_limit_indexes. Writes: sluice.queue_limits, and with it sluice.parked_key.
create or replace function sluice._remove_limits(limits_id integer)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limits sluice.queue_limits := sluice._lock_limits(limits_id);
begin
    delete from sluice.queue_limits as l where l.limits_id = _remove_limits.limits_id;
    v_limits.fleet_concurrency := null;
    v_limits.key_concurrency := null;
    v_limits.when_waiting := null;
    v_limits.priority_weights := null;
    perform sluice._drop_limit_indexes(v_limits);
end;
$$;

comment on function sluice._remove_limits(integer) is
    'Remove the limits of a queue and their indexes; the caller holds the lock of the queue.';
revoke execute on function sluice._remove_limits(integer) from public;
grant execute on function sluice._remove_limits(integer) to sluice_admin;
