-- For queues that park keys: a claim checks whether a message of the key was released to wait, before it claims one. So a key
-- is parked also if no claim happened while the message waited. Messages stay in the queue: parked ones are not claimed.
--
-- Reads: the queue's table. Writes: sluice.parked_key.
create or replace function sluice._park_keys(i_limits sluice.queue_settings, now timestamptz, keys bigint[])
returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_incremental_sort = off
set jit = off
as $$
begin
    if i_limits.when_waiting is distinct from 'park' then
        return keys;
    end if;
    execute format(
        'insert into sluice.parked_key (limits_id, key_hash, key, msg_id, parked_at)
         select $3, named.key, waiting.text, waiting.msg_id, $1
         from unnest($2) as named (key)
         cross join lateral (
            select q.headers ->> ''x-pgmq-group'' as text, q.msg_id
            from pgmq.%1$I as q
            where %2$s between named.key and named.key
              and q.read_ct > 0 and q.last_read_at is null
            order by %2$s, q.vt desc
            limit 1
         ) as waiting
         on conflict do nothing',
        i_limits.queue_table, sluice._limit_key_sql('q')
    )
    using now, keys, i_limits.limits_id;
    return array(
        select named.key
        from unnest(keys) as named (key)
        where not exists (
            select
            from sluice.parked_key as p
            where p.limits_id = i_limits.limits_id and p.key_hash = named.key
        )
    );
end;
$$;

comment on function sluice._park_keys(sluice.queue_settings, timestamptz, bigint[]) is
    'Park the given keys that have a waiting message, if the queue parks keys; returns the keys that are not parked.';
revoke execute on function sluice._park_keys(sluice.queue_settings, timestamptz, bigint[]) from public;
grant execute on function sluice._park_keys(sluice.queue_settings, timestamptz, bigint[]) to sluice_admin, sluice_reader;
