/*
 * Every log has a few functions of its own: the questions that are asked for each batch and each tick, in plain SQL on this log's
 * tables. PostgreSQL keeps their plans from call to call; as dynamic SQL on the parents they were planned anew each time, which
 * took most of the time of a batch without events.
 *
 * They work with their caller's rights. They belong to the owner of the schema, whoever creates the log, because every
 * installation replaces them (readers.sql).
 *
 * One plan for all values, and always along the indexes: a plan for the empty tables of today would meet millions of rows
 * tomorrow. The parents have no index, so to PostgreSQL before 18 such a plan looks expensive enough to be compiled, and to be
 * worth processes of its own: neither is to happen.
 */
create or replace function pgq._create_log_functions(i_queue_id integer)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_settings constant text := '
        set search_path = pg_catalog, pg_temp
        set plan_cache_mode = force_generic_plan
        set enable_seqscan = off
        set enable_bitmapscan = off
        set jit = off
        set max_parallel_workers_per_gather = 0';
    v_after constant text := '
declare
    v_tick pgq.tick;
begin
    select t.* into v_tick from pgq.%1$I as t where t.tick_id > i_tick_id order by t.tick_id limit 1;
    return v_tick;
end;
';
    v_last constant text := '
declare
    v_tick pgq.tick;
begin
    select t.* into v_tick from pgq.%1$I as t order by t.tick_id desc limit 1;
    return v_tick;
end;
';
    -- The transactions that i_upto sees and i_after does not: those from xmax(i_after) on, without the ones that i_upto has
    -- running, and those that i_after had running. The first are asked for as the gaps between the running ones: what
    -- these have written so far may be millions of rows, which an index scan over them would visit to find none visible.
    v_any constant text := '
begin
    return exists (
        select
        from (
            select running.txid as after, lead(running.txid, 1, pg_snapshot_xmax(i_upto)) over (order by running.txid) as before
            from (
                select (pg_snapshot_xmax(i_after)::text::bigint - 1)::text::xid8
                union all
                select x.txid from pg_snapshot_xip(i_upto) as x (txid) where x.txid >= pg_snapshot_xmax(i_after)
            ) as running (txid)
        ) as gap
        cross join lateral (
            select from pgq.%2$I as e where e.ev_txid > gap.after and e.ev_txid < gap.before limit 1
        ) as found
    )
    or exists (
        select
        from pgq.%2$I as e
        where e.ev_txid = any (array(
            select late.txid from pg_snapshot_xip(i_after) as late (txid) where pg_visible_in_snapshot(late.txid, i_upto)
        ))
    );
end;
';
    v_ticks text := format('tick_%s', i_queue_id);
    v_events text := format('event_%s', i_queue_id);
    v_function record;
    v_role name;
begin
    for v_function in
        select f.name, f.arguments, f.result, f.body, f.comment
        from (values
            (v_ticks || '_after', 'i_tick_id bigint', 'pgq.tick', v_after, 'The first tick of a log after a tick.'),
            (v_ticks || '_last', '', 'pgq.tick', v_last, 'The newest tick of a log.'),
            (
                v_events || '_any', 'i_after pg_snapshot, i_upto pg_snapshot', 'boolean', v_any,
                'Has a log any event that the second snapshot sees and the first does not?'
            )
        ) as f (name, arguments, result, body, comment)
    loop
        execute format(
            'create or replace function pgq.%I(%s) returns %s language plpgsql stable %s as %L',
            v_function.name, v_function.arguments, v_function.result, v_settings, format(v_function.body, v_ticks, v_events)
        );
        execute format('comment on function pgq.%I is %L', v_function.name, v_function.comment);
        execute format('revoke execute on function pgq.%I from public', v_function.name);
        foreach v_role in array array['pgq_admin', 'pgq_reader', 'sluice_admin', 'sluice_reader']
        loop
            if to_regrole(v_role::text) is not null then
                execute format('grant execute on function pgq.%I to %I', v_function.name, v_role);
            end if;
        end loop;
    end loop;
end;
$$;

comment on function pgq._create_log_functions(integer) is
    'Create the functions that read one log''s ticks and events, or replace them by those of this release.';
revoke execute on function pgq._create_log_functions(integer) from public;
grant execute on function pgq._create_log_functions(integer) to pgq_admin, sluice_admin;
