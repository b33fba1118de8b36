/*
 * The first visible messages of the given keys that may be claimed: per key the number that key_concurrency leaves beside
 * those in flight, or one if keys are ordered. With 'block', none of a key with a message that waits for a retry; with 'park',
 * none of one with a message that was released to wait, which the next claim parks: it may have been released after
 * sluice._park_keys looked.
 *
 * An ordered key has no message in flight when it is claimed, so a message that commits late is processed after a later one,
 * never beside it. A delayed message does not count before its time.
 *
 * Reads: the queue's table, a few index entries per key. Bounds instead of an equality, as in pgmq._next_groups: with them
 * the order starts with the key, which no unrelated index has.
 */
create or replace function sluice._first_of_keys(i_limits sluice.queue_settings, now timestamptz, keys bigint[], qty integer)
returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_incremental_sort = off
set jit = off
as $$
declare
    v_found bigint[];
begin
    if keys = '{}' then
        return keys;
    end if;
    execute format(
        'select array(
            select first.msg_id
            from unnest($2) as named (key)
            cross join lateral (
                select $3 - (
                    select count(*)
                    from (
                        select
                        from pgmq.%1$I as q
                        where %2$s between named.key and named.key
                          and q.vt > q.enqueued_at and q.last_read_at is not null
                          and q.vt > $1
                        order by %2$s, q.vt desc
                        limit $3
                    ) as claimed
                ) as room
                where not ($5 and exists (
                    select
                    from pgmq.%1$I as q
                    where %2$s between named.key and named.key
                      and q.read_ct > 0 and q.last_read_at is null
                      and q.vt > $6
                    order by %2$s, q.vt desc
                    limit 1
                ))
                offset 0 -- counted once
            ) as key
            cross join lateral (
                select visible.msg_id
                from (
                    select *
                    from (
                        select q.msg_id
                        from pgmq.%1$I as q
                        where %2$s between named.key and named.key
                          and q.vt <= q.enqueued_at
                          and q.vt <= $1
                        order by %2$s, q.msg_id
                        limit key.room
                    ) as ready
                    union all
                    select *
                    from (
                        select q.msg_id
                        from pgmq.%1$I as q
                        where %2$s between named.key and named.key
                          and q.vt > q.enqueued_at
                          and q.vt <= $1
                        order by %2$s, q.vt
                        limit 1000
                    ) as due
                ) as visible
                order by visible.msg_id
                limit key.room
            ) as first
            where key.room > 0
            order by first.msg_id
            limit $4
        )',
        i_limits.queue_table, sluice._limit_key_sql('q')
    )
    into v_found
    using now, keys, case when i_limits.when_waiting is null then i_limits.key_concurrency else 1 end, qty,
        coalesce(i_limits.when_waiting in ('block', 'park'), false),
        case i_limits.when_waiting when 'park' then '-infinity' else now end;
    return v_found;
end;
$$;

comment on function sluice._first_of_keys(sluice.queue_settings, timestamptz, bigint[], integer) is
    'Return the first visible messages of these keys that their limits allow, at most qty, sorted.';
revoke execute on function sluice._first_of_keys(sluice.queue_settings, timestamptz, bigint[], integer) from public;
grant execute on function sluice._first_of_keys(sluice.queue_settings, timestamptz, bigint[], integer) to sluice_admin, sluice_reader;
