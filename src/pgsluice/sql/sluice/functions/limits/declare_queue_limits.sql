/*
 * Called by workers at startup. Nothing is locked or built if the stored limits equal the declared ones: the processes of a
 * service start together, and all but the first find them stored.
 *
 * The lock of the queue comes first, as in sluice.set_queue_limits; the stored limits are read again under it.
 *
 * Calls: sluice._registered_name, sluice._require_limits, sluice._store_limits, sluice._remove_limits. Writes: sluice.queue_limits,
 * sluice.parked_key.
 */
create or replace function sluice.declare_queue_limits(
    queue_name text,
    declared_by text,
    fleet_concurrency integer default null,
    key_concurrency integer default null,
    rate integer default null,
    rate_interval interval default '1 second',
    when_waiting text default null
)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limits sluice.queue_limits;
    v_stored sluice.queue_limits;
    v_has_limits boolean := num_nonnulls(fleet_concurrency, key_concurrency, rate, when_waiting) > 0;
    v_is_locked boolean := false;
begin
    if coalesce(declared_by, '') = '' then
        raise exception using
            errcode = '22023',
            message = 'declared_by is empty',
            hint = 'pass the name of the handler, or call sluice.set_queue_limits() as an operator';
    end if;
    v_limits.queue_name := sluice._registered_name(queue_name);
    v_limits.queue_table := pgmq.format_table_name(queue_name, 'q');
    v_limits.fleet_concurrency := fleet_concurrency;
    v_limits.key_concurrency := key_concurrency;
    v_limits.rate := rate;
    v_limits.rate_interval := case when rate is not null then rate_interval end;
    v_limits.when_waiting := when_waiting;
    v_limits.declared_by := declared_by;
    if v_has_limits then
        perform sluice._require_limits(v_limits);
    end if;
    loop
        select l.* into v_stored from sluice.queue_limits as l where l.queue_name = v_limits.queue_name;
        if found and v_stored.declared_by is null then
            return 'operator';
        elsif found is distinct from v_has_limits or v_has_limits and (
            v_stored.fleet_concurrency, v_stored.key_concurrency, v_stored.rate, v_stored.rate_interval, v_stored.when_waiting
        ) is distinct from (
            v_limits.fleet_concurrency, v_limits.key_concurrency, v_limits.rate, v_limits.rate_interval, v_limits.when_waiting
        ) then
            null; -- to be changed
        else
            return 'unchanged';
        end if;
        exit when v_is_locked;
        perform pgmq.acquire_queue_lock(queue_name);
        v_is_locked := true;
    end loop;
    if v_has_limits then
        perform sluice._store_limits(v_limits);
    else
        perform sluice._remove_limits(v_stored.limits_id);
    end if;
    return 'changed';
end;
$$;

comment on function sluice.declare_queue_limits(text, text, integer, integer, integer, interval, text) is
    'Store the limits that a handler declares for its queue, all null for none, replacing earlier declared ones; returns changed, unchanged, or operator: limits set by sluice.set_queue_limits are kept.';
revoke execute on function sluice.declare_queue_limits(text, text, integer, integer, integer, interval, text) from public;
grant execute on function sluice.declare_queue_limits(text, text, integer, integer, integer, interval, text) to sluice_admin;
