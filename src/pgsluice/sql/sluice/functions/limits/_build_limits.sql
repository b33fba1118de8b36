/*
 * A claim from a queue with limits locks them and reads them after that; so does this. So each claim obeys either the old
 * or the new limits, and none ignores the new ones once they are committed.
 *
 * Indexes are created and dropped as needed, because each send pays for them. Sends and claims wait while one is built.
 *
 * Calls: sluice._limit_indexes, sluice._lock_limits. Writes: sluice.parked_key.
 */
create or replace function sluice._build_limits(i_limits sluice.queue_settings)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_index record;
begin
    if i_limits.limits_id is not null then
        perform sluice._lock_limits(i_limits.limits_id);
    end if;
    if sluice._limits(i_limits) <> '{}' then
        perform pgmq._require_own_table(i_limits.queue_table);
    end if;
    for v_index in
        select c.relname
        from pg_index as x
        join pg_class as c on c.oid = x.indexrelid
        where x.indrelid = to_regclass(format('pgmq.%I', i_limits.queue_table))
          and substr(c.relname, length(i_limits.queue_table) + 1)
              ~ '^(_claimed|_key|_key_claim|_key_vt|_waiting|_level[2-9]|_level[2-9]_vt)_idx$'
          and c.relname not in (select i.index_name from sluice._limit_indexes(i_limits) as i)
    loop
        execute format('drop index pgmq.%I', v_index.relname);
    end loop;
    for v_index in
        select i.index_name, i.definition from sluice._limit_indexes(i_limits) as i
    loop
        if to_regclass(format('pgmq.%I', v_index.index_name)) is null then
            execute format(
                'create index %I on pgmq.%I %s', v_index.index_name, i_limits.queue_table, v_index.definition
            );
        end if;
    end loop;
    delete from sluice.parked_key as p
    where p.limits_id = i_limits.limits_id
      and i_limits.when_waiting is distinct from 'park';
end;
$$;

comment on function sluice._build_limits(sluice.queue_settings) is
    'Lock the limits of a queue, and create the indexes that these need; the caller holds the lock of the queue, and stores them.';
revoke execute on function sluice._build_limits(sluice.queue_settings) from public;
grant execute on function sluice._build_limits(sluice.queue_settings) to sluice_admin;
