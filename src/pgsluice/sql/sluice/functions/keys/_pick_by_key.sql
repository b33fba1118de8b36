/*
 * Selects the messages of a claim from a queue whose keys have a limit or an order: the first visible ones of keys with
 * capacity, lowest msg_id first.
 *
 * The ready messages from the lowest id, and those that became due, give the keys; the index tells if a key is full. If that
 * does not suffice, because a full key has a long backlog in front, the index is scanned key by key from a random position:
 * this skips the messages of full keys and visits only the keys, which are no more than the messages in flight, waiting
 * or parked. After 1,000 keys the claim takes what it has found; the next one starts at another position.
 *
 * Calls: sluice._limit_key_sql, sluice._park_keys, sluice._next_keys, sluice._first_of_keys. Locks rows of the queue's table; never waits.
 */
create or replace function sluice._pick_by_key(i_limits sluice.queue_settings, now timestamptz, qty integer)
returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
-- Each query reads the first rows of an index; see pgmq._claim_groups.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_incremental_sort = off
set jit = off
as $$
declare
    v_piece constant integer := least(greatest(qty::bigint * 2, 64), 1024)::integer;
    v_keys_max constant integer := 1000;
    v_key text := sluice._limit_key_sql('q');
    v_keys bigint[];
    v_seen bigint[];
    v_is_all boolean;
    v_position bigint;
    v_begin bigint;
    v_is_wrapped boolean := false;
    v_step integer := least(greatest(qty::bigint * 2, 8), 256)::integer;
    v_walked integer := 0;
    v_picked bigint[];
    v_locked bigint[];
begin
    execute format(
        'with ready as materialized (
            select %2$s as key
            from pgmq.%1$I as q
            where q.vt <= q.enqueued_at and q.vt <= $1
            order by q.msg_id
            limit $2
        ),
        due as materialized (
            select %2$s as key
            from pgmq.%1$I as q
            where q.vt > q.enqueued_at and q.vt <= $1
            order by q.vt
            limit $2
        )
        select
            coalesce(array_agg(distinct named.key) filter (where named.key is not null), ''{}''),
            (select count(*) from ready) < $2 and (select count(*) from due) < $2
        from (select ready.key from ready union all select due.key from due) as named',
        i_limits.queue_table, v_key
    )
    into v_keys, v_is_all
    using now, v_piece;
    v_seen := v_keys;
    -- Messages without a key have no order and no key limit.
    v_picked := sluice._first_without_key(i_limits.queue_table, now, qty)
        || sluice._first_of_keys(i_limits, now, sluice._park_keys(i_limits, now, v_keys), qty);

    if not v_is_all then
        v_begin := hashtextextended(random()::text, 0);
        v_position := v_begin;
        while cardinality(v_picked) < qty and v_walked < v_keys_max loop
            v_keys := sluice._next_keys(
                i_limits.queue_table, v_position, case when v_is_wrapped then v_begin else 9223372036854775807 end, v_step
            );
            v_walked := v_walked + cardinality(v_keys);
            v_picked := v_picked || sluice._first_of_keys(
                i_limits, now,
                sluice._park_keys(
                    i_limits, now, array(select key from unnest(v_keys) as key except select seen from unnest(v_seen) as seen)
                ),
                qty - cardinality(v_picked)
            );
            if cardinality(v_keys) = v_step then
                v_position := v_keys[v_step];
            elsif v_is_wrapped then
                exit;
            else
                v_is_wrapped := true;
                v_position := -9223372036854775808;
            end if;
            v_step := v_step * 2;
        end loop;
    end if;

    execute format(
        'select array(
            select q.msg_id
            from pgmq.%I as q
            where q.msg_id = any ($1) and q.vt <= $2
            order by q.msg_id
            limit $3
            for update skip locked
        )',
        i_limits.queue_table
    )
    into v_locked
    using v_picked, now, qty;
    return v_locked;
end;
$$;

comment on function sluice._pick_by_key(sluice.queue_settings, timestamptz, integer) is
    'Lock up to qty visible messages whose keys have capacity, the first ones of each key; returns their ids, sorted.';
revoke execute on function sluice._pick_by_key(sluice.queue_settings, timestamptz, integer) from public;
grant execute on function sluice._pick_by_key(sluice.queue_settings, timestamptz, integer) to sluice_admin, sluice_reader;
