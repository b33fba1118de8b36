/*
 * A claim from a queue with limits takes a lock and reads the limits after it got it; so does this. Hence a claim obeys either
 * those of before or those of now, and none is made beside them once this has committed.
 *
 * The indexes come and go with what needs them: each send pays for them. Whoever sends or claims waits while one is built.
 *
 * Calls: sluice._registered_name, sluice._require_limits, sluice._limit_indexes, sluice._lock_limits. Writes: sluice.queue_limits,
 * sluice.parked_key.
 */
create or replace function sluice.set_queue_limits(
    queue_name text,
    fleet_concurrency integer default null,
    key_concurrency integer default null,
    rate integer default null,
    rate_interval interval default '1 second',
    when_waiting text default null,
    priority_weights integer[] default null
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limits sluice.queue_limits;
    v_index record;
begin
    v_limits.queue_name := sluice._registered_name(queue_name);
    v_limits.queue_table := pgmq.format_table_name(queue_name, 'q');
    v_limits.fleet_concurrency := fleet_concurrency;
    v_limits.key_concurrency := key_concurrency;
    v_limits.rate := rate;
    v_limits.rate_interval := case when rate is not null then rate_interval end;
    v_limits.when_waiting := when_waiting;
    v_limits.priority_weights := priority_weights;
    perform sluice._require_limits(v_limits);

    perform pgmq.acquire_queue_lock(queue_name);
    select l.limits_id
    into v_limits.limits_id
    from sluice.queue_limits as l
    where l.queue_name = v_limits.queue_name;
    if found then
        perform sluice._lock_limits(v_limits.limits_id);
    end if;

    perform pgmq._require_own_table(v_limits.queue_table);
    perform sluice._drop_limit_indexes(v_limits);
    for v_index in
        select i.index_name, i.definition from sluice._limit_indexes(v_limits) as i
    loop
        -- Every process of a service may set them when it starts.
        if to_regclass(format('pgmq.%I', v_index.index_name)) is null then
            execute format(
                'create index %I on pgmq.%I %s', v_index.index_name, v_limits.queue_table, v_index.definition
            );
        end if;
    end loop;

    insert into sluice.queue_limits as l (
        queue_name, fleet_concurrency, key_concurrency, rate, rate_interval, when_waiting, priority_weights
    )
    values (
        v_limits.queue_name, v_limits.fleet_concurrency, v_limits.key_concurrency, v_limits.rate, v_limits.rate_interval,
        v_limits.when_waiting, v_limits.priority_weights
    )
    on conflict on constraint queue_limits_pkey do update
    set fleet_concurrency = excluded.fleet_concurrency,
        key_concurrency = excluded.key_concurrency,
        rate = excluded.rate,
        rate_interval = excluded.rate_interval,
        when_waiting = excluded.when_waiting,
        priority_weights = excluded.priority_weights;
    -- So that the row to lock is there.
    perform sluice._try_lock(1936484717, l.limits_id) from sluice.queue_limits as l where l.queue_name = v_limits.queue_name;
    delete from sluice.parked_key as p
    where p.limits_id = v_limits.limits_id
      and v_limits.when_waiting is distinct from 'park';
end;
$$;

comment on function sluice.set_queue_limits(text, integer, integer, integer, interval, text, integer[]) is
    'Let claims from a queue keep to these limits and to this order, and to no others: what is null is not limited. sql/sluice/README.md explains them.';
revoke execute on function sluice.set_queue_limits(text, integer, integer, integer, interval, text, integer[]) from public;
grant execute on function sluice.set_queue_limits(text, integer, integer, integer, interval, text, integer[]) to sluice_admin;
