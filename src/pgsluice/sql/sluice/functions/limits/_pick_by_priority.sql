/*
 * Selects the messages of a claim from a queue with priorities: of each level by its weight, and if a level has fewer, more
 * of the others, the most urgent first.
 *
 * Of qty messages, a level with weight w of W in all gets qty * w / W. The remainder is drawn with the weights as odds: so
 * claims of one message need no state in between, and a level with a weight is served whatever the backlog of the others. A
 * level with weight 0 gets the remainder.
 *
 * Within a level as in pgmq._outdated_readers, by indexes with the level first: the backlog of other levels costs nothing.
 *
 * Calls: sluice._limit_level_sql. Locks rows of the queue's table; never waits.
 */
create or replace function sluice._pick_by_priority(queue_table text, weights integer[], now timestamptz, qty integer)
returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
-- The query reads the first rows of an index; see pgmq._claim_groups. Bounds instead of an equality, so that only the
-- index of levels has the order, and outdated statistics cannot make the planner scan all messages.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_incremental_sort = off
set jit = off
as $$
declare
    v_due_max constant bigint := 1000; -- as in pgmq._outdated_readers
    v_sum bigint := (select sum(weight) from unnest(weights) as weight);
    v_levels constant integer := cardinality(weights);
    v_sql text := format(
        'select array(
            select visible.msg_id
            from (
                select *
                from (
                    select queued.msg_id
                    from pgmq.%1$I as queued
                    where %2$s between $5 and $5
                      and queued.vt <= queued.enqueued_at
                      and queued.vt <= $1
                      and queued.msg_id <> all ($3)
                    order by %2$s, queued.msg_id
                    limit $2
                    for update skip locked
                ) as ready
                union all
                select *
                from (
                    select queued.msg_id
                    from pgmq.%1$I as queued
                    where queued.msg_id = any (array(
                            select queued.msg_id
                            from pgmq.%1$I as queued
                            where %2$s between $5 and $5
                              and queued.vt > queued.enqueued_at
                              and queued.vt <= $1
                              and queued.msg_id <> all ($3)
                            order by %2$s, queued.vt
                            limit greatest($2, $4)
                        ))
                      and queued.vt <= $1
                    order by queued.msg_id
                    limit $2
                    for update skip locked
                ) as due
            ) as visible
            order by visible.msg_id
            limit $2
        )',
        queue_table, sluice._limit_level_sql('queued', v_levels)
    );
    v_quotas bigint[];
    v_drawn bigint;
    v_wanted bigint;
    v_found bigint[];
    v_picked bigint[] := '{}';
    v_levels_of integer[] := '{}';
    v_is_exhausted boolean[] := array_fill(false, array[v_levels]);
begin
    v_quotas := array(
        select qty * weight / v_sum from unnest(weights::bigint[]) with ordinality as w (weight, level) order by level
    );
    for v_number in 1 .. qty - (select sum(quota) from unnest(v_quotas) as quota) loop
        v_drawn := floor(random() * v_sum);
        for v_level in 1 .. v_levels loop
            v_drawn := v_drawn - weights[v_level];
            if v_drawn < 0 then
                v_quotas[v_level] := v_quotas[v_level] + 1;
                exit;
            end if;
        end loop;
    end loop;

    -- First the share of each level, then the remainder.
    for v_pass in 1 .. 2 loop
        for v_level in 1 .. v_levels loop
            v_wanted := case v_pass when 1 then v_quotas[v_level] else qty - cardinality(v_picked) end;
            continue when v_wanted = 0 or v_is_exhausted[v_level];
            execute v_sql into v_found using now, v_wanted, v_picked, v_due_max, v_level;
            v_is_exhausted[v_level] := cardinality(v_found) < v_wanted;
            v_picked := v_picked || v_found;
            v_levels_of := v_levels_of || array_fill(v_level, array[cardinality(v_found)]);
        end loop;
    end loop;
    return array(
        select picked.msg_id
        from unnest(v_picked, v_levels_of) as picked (msg_id, level)
        order by picked.level, picked.msg_id
    );
end;
$$;

comment on function sluice._pick_by_priority(text, integer[], timestamptz, integer) is
    'Lock up to qty visible messages, of each level by its weight; returns their ids, the most urgent level first.';
revoke execute on function sluice._pick_by_priority(text, integer[], timestamptz, integer) from public;
grant execute on function sluice._pick_by_priority(text, integer[], timestamptz, integer) to sluice_admin, sluice_reader;
