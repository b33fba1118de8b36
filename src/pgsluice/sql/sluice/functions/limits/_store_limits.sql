/*
 * A claim from a queue with limits locks them and reads them after that; so does this. So each claim obeys either the old
 * or the new limits, and none ignores the new ones once this has committed.
 *
 * Indexes are created and dropped as needed, because each send pays for them. Sends and claims wait while one is built.
 *
 * Calls: sluice._limit_indexes, sluice._drop_limit_indexes, sluice._lock_limits. Writes: sluice.queue_limits, sluice.parked_key.
 */
create or replace function sluice._store_limits(i_limits sluice.queue_limits)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limits_id integer;
    v_index record;
begin
    select l.limits_id into v_limits_id from sluice.queue_limits as l where l.queue_name = i_limits.queue_name;
    if found then
        perform sluice._lock_limits(v_limits_id);
    end if;

    perform pgmq._require_own_table(i_limits.queue_table);
    perform sluice._drop_limit_indexes(i_limits);
    for v_index in
        select i.index_name, i.definition from sluice._limit_indexes(i_limits) as i
    loop
        if to_regclass(format('pgmq.%I', v_index.index_name)) is null then
            execute format(
                'create index %I on pgmq.%I %s', v_index.index_name, i_limits.queue_table, v_index.definition
            );
        end if;
    end loop;

    insert into sluice.queue_limits as l (
        queue_name, fleet_concurrency, key_concurrency, rate, rate_interval, when_waiting, priority_weights, declared_by
    )
    values (
        i_limits.queue_name, i_limits.fleet_concurrency, i_limits.key_concurrency, i_limits.rate, i_limits.rate_interval,
        i_limits.when_waiting, i_limits.priority_weights, i_limits.declared_by
    )
    on conflict on constraint queue_limits_pkey do update
    set fleet_concurrency = excluded.fleet_concurrency,
        key_concurrency = excluded.key_concurrency,
        rate = excluded.rate,
        rate_interval = excluded.rate_interval,
        when_waiting = excluded.when_waiting,
        priority_weights = excluded.priority_weights,
        declared_by = excluded.declared_by;
    -- So that the row to lock exists.
    perform sluice._try_lock(1936484717, l.limits_id) from sluice.queue_limits as l where l.queue_name = i_limits.queue_name;
    delete from sluice.parked_key as p
    where p.limits_id = v_limits_id
      and i_limits.when_waiting is distinct from 'park';
end;
$$;

comment on function sluice._store_limits(sluice.queue_limits) is
    'Replace the limits of a queue, and create the indexes that they need; the caller holds the lock of the queue.';
revoke execute on function sluice._store_limits(sluice.queue_limits) from public;
grant execute on function sluice._store_limits(sluice.queue_limits) to sluice_admin;
