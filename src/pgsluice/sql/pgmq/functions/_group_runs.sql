-- Deliverable messages of the given groups: each group's run starts at its head and ends before its first invisible
-- message; of the runs, the first qty messages. Strategy 'fill': group by group. 'round': the first of each group, then
-- the second of each. place is the position of the message's group in keys.
--
-- Reads only what it returns, for 'round' at most twice that; without the indexes of create_fifo_index, the queue once.
-- Calls: _fifo_key_sql. Reads: the queue's table.
create or replace function pgmq._group_runs(
    queue_table text, due_by timestamptz, keys bigint[], heads bigint[], qty integer, strategy text, indexed boolean,
    out msg_ids bigint[], out places integer[]
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_key text := pgmq._fifo_key_sql('q');
    v_depth bigint;
    v_deeper boolean;
    v_run text := format(
        'select q.msg_id, q.vt
         from pgmq.%1$I as q
         where %2$s between named.key and named.key and q.msg_id >= named.head
         order by %2$s, q.msg_id',
        queue_table, v_key
    );
    v_round text;
begin
    if indexed and strategy = 'fill' then
        execute format(
            'with recursive step (place, taken, msg_ids) as (
                select 0, 0::bigint, ''{}''::bigint[]
                union all
                select step.place + 1, step.taken + cardinality(run.msg_ids), run.msg_ids
                from step
                cross join lateral (select ($2)[step.place + 1] as key, ($3)[step.place + 1] as head) as named
                cross join lateral (
                    select coalesce(array_agg(open.msg_id order by open.msg_id) filter (where open.visible), ''{}'') as msg_ids
                    from (
                        select found.msg_id, bool_and(found.vt <= $1) over (order by found.msg_id) as visible
                        from (%s limit $4 - step.taken) as found
                    ) as open
                ) as run
                where step.taken < $4 and step.place < cardinality($2)
            )
            select array_agg(run.msg_id order by step.place, run.msg_id), array_agg(step.place order by step.place, run.msg_id)
            from step
            cross join lateral unnest(step.msg_ids) as run (msg_id)',
            v_run
        )
        into msg_ids, places
        using due_by, keys, heads, qty;
        return;
    end if;

    v_round := case
        when indexed then format(
            'select named.place, found.msg_id, found.vt
             from unnest($2, $3) with ordinality as named (key, head, place)
             cross join lateral (%s limit $5) as found',
            v_run
        )
        else format(
            'select named.place, q.msg_id, q.vt
             from pgmq.%1$I as q
             join unnest($2, $3) with ordinality as named (key, head, place) on named.key = %2$s and q.msg_id >= named.head',
            queue_table, v_key
        )
    end;
    v_round := format(
        'with open as (
            select found.place, found.msg_id,
                bool_and(found.vt <= $1) over run as visible,
                row_number() over run as depth
            from (%1$s) as found
            window run as (partition by found.place order by found.msg_id)
        ),
        chosen as (
            select row_number() over (order by %2$s) as number, open.*
            from open
            where open.visible
            order by %2$s
            limit $4
        )
        select array_agg(chosen.msg_id order by chosen.number), array_agg(chosen.place order by chosen.number),
            coalesce(max(chosen.depth) >= $5 and count(*) < $4, false)
        from chosen',
        v_round, case strategy when 'fill' then 'open.place, open.msg_id' else 'open.depth, open.place' end
    );
    -- The depth that suffices if all groups have the same length; doubled while some group continues beyond it.
    v_depth := case when indexed then ceil(qty::numeric / cardinality(keys)) else qty end;
    loop
        execute v_round into msg_ids, places, v_deeper using due_by, keys, heads, qty, v_depth;
        exit when not v_deeper or v_depth >= qty;
        v_depth := v_depth * 2;
    end loop;
end;
$$;

comment on function pgmq._group_runs(text, timestamptz, bigint[], bigint[], integer, text, boolean) is
    'Return the first qty messages of the visible runs at the heads of these groups, in the order of the strategy.';
revoke execute on function pgmq._group_runs(text, timestamptz, bigint[], bigint[], integer, text, boolean) from public;
grant execute on function pgmq._group_runs(text, timestamptz, bigint[], bigint[], integer, text, boolean)
    to sluice_admin, sluice_reader;
