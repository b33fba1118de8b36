-- Locks the messages that a group reader returns, in the order of its strategy: 'fill' takes the messages of the group
-- with the oldest head, then those of the next group; 'round' takes the first message of each group, then the second of
-- each; 'head' takes the first of each.
--
-- A group is delivered from its head up to the first message that is invisible or locked by another transaction, so
-- that no message overtakes another of its group. The lock on the head row keeps other readers out of the group until
-- this transaction ends; from then on the head's vt does. A group whose head another transaction has locked is skipped.
--
-- Calls: _has_fifo_index, _request_fifo_index, _next_groups, _group_runs, _lock_runs. Locks rows of the queue's table; never waits.
create or replace function pgmq._claim_groups(queue_table text, due_by timestamptz, qty integer, strategy text)
returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
-- Each query here reads the first rows of an index. Without statistics, as for a queue just filled, the planner prefers
-- a sequential scan and a sort.
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    -- Spare heads, because other readers may hold the first ones.
    v_spare constant integer := 16;
    v_indexed boolean := pgmq._has_fifo_index(queue_table);
    v_wanted integer := qty;
    v_seen bigint[] := '{}';
    v_walked_to bigint;
    v_ended boolean := false;
    v_keys bigint[] := '{}';
    v_heads bigint[] := '{}';
    v_take integer;
    v_runs record;
    v_expected bigint[];
    v_locked bigint[];
    v_locked_keys bigint[];
    v_held_keys bigint[] := '{}';
    v_held bigint[] := '{}';
    v_claimed bigint[] := '{}';
begin
    -- Roles of an adopted PGMQ may not call it.
    if not v_indexed and has_function_privilege('pgmq._request_fifo_index(text)', 'execute') then
        perform pgmq._request_fifo_index(queue_table);
    end if;
    while v_wanted > 0 loop
        if cardinality(v_heads) = 0 then
            exit when v_ended;
            select g.seen, g.walked_to, g.ended, g.keys, g.heads
            into v_seen, v_walked_to, v_ended, v_keys, v_heads
            from pgmq._next_groups(
                queue_table, due_by, least(v_wanted::bigint + v_spare, 2147483647)::integer, v_indexed,
                v_seen, v_walked_to, v_ended
            ) as g;
            continue;
        end if;

        v_take := v_wanted;
        if strategy = 'fill' then
            -- Only the groups that fill qty: a head that is locked but not returned is hidden from all readers.
            v_runs := pgmq._group_runs(
                queue_table, due_by, v_keys[:v_wanted], v_heads[:v_wanted], v_wanted, strategy, v_indexed
            );
            v_take := coalesce(v_runs.places[cardinality(v_runs.places)], 0);
            v_expected := v_heads[:v_take];
        end if;
        execute format(
            'select coalesce(array_agg(locked.msg_id order by locked.msg_id), ''{}'')
             from (
                select q.msg_id
                from pgmq.%I as q
                where q.msg_id = any ($1) and q.vt <= $2
                order by q.msg_id
                limit $3
                for update skip locked
             ) as locked',
            queue_table
        )
        into v_locked
        using v_heads, due_by, v_take;
        -- If fewer were locked than requested, v_locked[v_take] is null and no group remains: other sessions hold the
        -- rest.
        select coalesce(array_agg(g.key order by g.head) filter (where g.head = any (v_locked)), '{}'),
            coalesce(array_agg(g.key order by g.head) filter (where g.head > v_locked[v_take]), '{}'),
            coalesce(array_agg(g.head order by g.head) filter (where g.head > v_locked[v_take]), '{}')
        into v_locked_keys, v_keys, v_heads
        from unnest(v_keys, v_heads) as g (key, head);
        continue when cardinality(v_locked) = 0;

        if strategy = 'fill' then
            if v_locked <> v_expected then
                v_runs := pgmq._group_runs(
                    queue_table, due_by, v_locked_keys, v_locked, v_wanted, strategy, v_indexed
                );
            end if;
            v_claimed := v_claimed || pgmq._lock_runs(queue_table, due_by, v_runs.msg_ids, v_runs.places);
            v_wanted := qty - cardinality(v_claimed);
        else
            v_held_keys := v_held_keys || v_locked_keys;
            v_held := v_held || v_locked;
            v_wanted := qty - cardinality(v_held);
        end if;
    end loop;

    if strategy = 'round' and v_wanted > 0 and cardinality(v_held) > 0 then
        select array_agg(g.key order by g.head), array_agg(g.head order by g.head)
        into v_held_keys, v_held
        from unnest(v_held_keys, v_held) as g (key, head);
        v_runs := pgmq._group_runs(queue_table, due_by, v_held_keys, v_held, qty, strategy, v_indexed);
        return pgmq._lock_runs(queue_table, due_by, v_runs.msg_ids, v_runs.places);
    end if;
    return case
        when strategy = 'fill' then v_claimed
        else array(select head from unnest(v_held) as head order by head)
    end;
end;
$$;

comment on function pgmq._claim_groups(text, timestamptz, integer, text) is
    'Lock up to qty messages of groups whose head is visible; returns their ids in the order of the strategy.';
revoke execute on function pgmq._claim_groups(text, timestamptz, integer, text) from public;
grant execute on function pgmq._claim_groups(text, timestamptz, integer, text) to sluice_admin, sluice_reader;
