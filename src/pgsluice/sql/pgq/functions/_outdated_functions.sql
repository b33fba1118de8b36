/*
 * Every log has a few functions of its own: the queries of each batch, claim and tick, as static SQL on this log's
 * tables. PostgreSQL caches their plans; as dynamic SQL on the parents they were planned at each call, which took most
 * of the time of a batch without events.
 *
 * They run with their caller's rights. They belong to the owner of the schema, not to the creator of the log, because
 * installations replace them (readers.sql).
 *
 * Returns one row per function that is missing or differs from this release in its text, settings, comment or rights,
 * with the statements that correct it. Reads the catalog only. Replacing a function takes no lock, but COMMENT and
 * GRANT do: they are left out where they would change nothing.
 *
 * The plans always use the indexes: a plan for today's empty tables would be used on millions of rows tomorrow. The
 * parents are empty and have the same indexes, for the sake of these plans: without them there is no plan with only
 * index scans, and before PostgreSQL 18 one with a disabled scan looks expensive enough for JIT compilation and
 * parallel workers.
 */
create or replace function pgq._outdated_functions(i_queue_ids integer[], out queue_id integer, out statement text)
returns setof record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off -- names of types are compared as text
as $$
declare
    v_settings constant text[] := array['search_path=pg_catalog, pg_temp', 'enable_seqscan=off', 'enable_bitmapscan=off'];
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
    -- Transactions that i_upto sees and i_after does not: those from xmax(i_after) on that are not in progress in
    -- i_upto, and those in progress in i_after; mostly there are none. If there are, the query uses the gaps between
    -- them: one of these may have written millions of rows, and an index scan over them would visit each only to find
    -- it invisible.
    v_any constant text := '
begin
    if pg_snapshot_xmin(i_upto) = pg_snapshot_xmax(i_upto) then
        if exists (
            select from pgq.%2$I as e where e.ev_txid >= pg_snapshot_xmax(i_after) and e.ev_txid < pg_snapshot_xmax(i_upto)
        ) then
            return true;
        end if;
    elsif exists (
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
    ) then
        return true;
    end if;
    -- An IF of its own: an expression with a query starts the executor on all tables of the log, even if it does not run.
    if pg_snapshot_xmin(i_after) = pg_snapshot_xmax(i_after) then
        return false;
    end if;
    return exists (
        select
        from pgq.%2$I as e
        where e.ev_txid = any (array(
            select late.txid from pg_snapshot_xip(i_after) as late (txid) where pg_visible_in_snapshot(late.txid, i_upto)
        ))
    );
end;
';
    v_window constant text := '
declare
    v_tick pgq.tick;
    v_found pgq.tick;
begin
    -- Ticks that the snapshot covers are skipped: one may have been taken before it and committed after it.
    for v_tick in
        select t.* from pgq.%1$I as t where t.tick_id > i_after_tick order by t.tick_id limit 100
    loop
        if pg_snapshot_xmax(v_tick.tick_snapshot) >= pg_snapshot_xmax(i_after) and not exists (
            select from pg_snapshot_xip(v_tick.tick_snapshot) as running (txid) where pg_visible_in_snapshot(running.txid, i_after)
        ) then
            v_found := v_tick;
            exit when v_tick.tick_event_seq >= i_event_seq;
        end if;
    end loop;
    if v_found.tick_id is null then
        v_found.tick_id := v_tick.tick_id;
    end if;
    return v_found;
end;
';
    -- Three parts, each ordered by number, so that their concatenation is. Nearly all events are in the middle part:
    -- their numbers were given out between the two snapshots, one range of the index by number. Other events of the
    -- window got earlier numbers, in transactions that ended late or that set ev_id themselves, or later ones: they are
    -- found by transaction. That reads the window''s part of an index only, once at its beginning and once at its end.
    --
    -- A transaction that ended late may have written thousands of events with earlier numbers, and a long window may
    -- have many more: then each claim of the first part would read the index of the whole window again. So after the
    -- first one the search by number starts there, if it ends sooner: at the number of the last event that the late
    -- transactions have for this claim. Both ways find the same events.
    --
    -- What is looked up by transaction must not use the index by number, whose range may be the whole log: where few
    -- transactions wrote many events the planner takes it for cheaper. So the numbers are compared after the transaction.
    v_next constant text := '
declare
    v_events pgq.event_template[] := ''{}'';
    v_from bigint := greatest(i_after_ev_id, i_after_seq);
    v_upto bigint;
begin
    -- A window of few events, as when consumers wait for each: all of it is looked up by transaction.
    if i_after_ev_id is null and i_upto_seq - i_after_seq <= 100 then
        return array(
            select e from pgq.%3$I(i_after, i_upto, -9223372036854775808, 9223372036854775807, i_owner, i_qty) as e
        );
    end if;
    -- Null: from the beginning of the window.
    if i_after_ev_id < i_after_seq then
        select e.ev_id
        into v_upto
        from pg_snapshot_xip(i_after) as late (txid)
        cross join lateral (
            select e.ev_id
            from pgq.%2$I as e
            where (e.ev_txid, e.ev_id) > (late.txid, i_after_ev_id)
              and (e.ev_txid, e.ev_id) <= (late.txid, i_after_seq)
              and (e.ev_owner is null or e.ev_owner = i_owner)
            order by e.ev_txid, e.ev_id
            limit i_qty
        ) as e
        where pg_visible_in_snapshot(late.txid, i_upto)
        order by e.ev_id
        offset i_qty - 1
        limit 1;
        -- A row found by number costs about as much as four index entries.
        if 4 * (coalesce(v_upto, i_after_seq)::numeric - i_after_ev_id) < i_upto_seq::numeric - i_after_seq then
            v_from := i_after_ev_id;
        end if;
    end if;
    if i_after_ev_id is null or i_after_ev_id < i_after_seq and v_from > i_after_ev_id then
        v_events := array(
            select e
            from pgq.%3$I(
                i_after, i_upto, coalesce(i_after_ev_id + 1, -9223372036854775808), i_after_seq, i_owner, i_qty
            ) as e
        );
    end if;
    if cardinality(v_events) < i_qty and coalesce(i_after_ev_id < i_upto_seq, true) then
        v_events := v_events || array(
            select row(%4$s)::pgq.event_template
            from pgq.%2$I as e
            where e.ev_id > v_from
              and e.ev_id <= i_upto_seq
              and e.ev_txid < pg_snapshot_xmax(i_upto)
              and pg_visible_in_snapshot(e.ev_txid, i_upto)
              and not pg_visible_in_snapshot(e.ev_txid, i_after)
              and (e.ev_owner is null or e.ev_owner = i_owner)
            order by e.ev_id
            fetch first (i_qty - cardinality(v_events)) rows with ties
        );
    end if;
    if cardinality(v_events) < i_qty and i_after_ev_id is distinct from 9223372036854775807 then
        v_events := v_events || array(
            select e
            from pgq.%3$I(
                i_after, i_upto, greatest(i_after_ev_id, i_after_seq, i_upto_seq) + 1, 9223372036854775807, i_owner,
                i_qty - cardinality(v_events)
            ) as e
        );
    end if;
    return v_events;
end;
';
    v_outside constant text := '
begin
    return query
        select e.*
        from (
            select e.*
            from pgq.%2$I as e
            where e.ev_txid >= pg_snapshot_xmax(i_after)
              and e.ev_txid < pg_snapshot_xmax(i_upto)
              and e.ev_id + 0 >= i_from_ev_id
              and e.ev_id + 0 <= i_upto_ev_id
              and pg_visible_in_snapshot(e.ev_txid, i_upto)
              and (e.ev_owner is null or e.ev_owner = i_owner)
            union all
            -- A transaction that was in progress may have written millions of rows: of each, at most the requested
            -- number.
            select e.*
            from pg_snapshot_xip(i_after) as late (txid)
            cross join lateral (
                select e.*
                from pgq.%2$I as e
                where (e.ev_txid, e.ev_id) >= (late.txid, i_from_ev_id)
                  and (e.ev_txid, e.ev_id) <= (late.txid, i_upto_ev_id)
                  and (e.ev_owner is null or e.ev_owner = i_owner)
                order by e.ev_txid, e.ev_id
                fetch first (i_qty) rows with ties
            ) as e
            where pg_visible_in_snapshot(late.txid, i_upto)
        ) as e
        order by e.ev_id
        fetch first (i_qty) rows with ties;
end;
';
    v_claimed constant text := '
begin
    return query
        select e.*
        from pgq.%2$I as e
        where e.ev_id = any (i_ev_ids)
          and (e.ev_id > i_after_ev_id or i_after_ev_id is null)
          and e.ev_id <= i_upto_ev_id
          and pg_visible_in_snapshot(e.ev_txid, i_upto)
          and not pg_visible_in_snapshot(e.ev_txid, i_after)
          and (e.ev_owner is null or e.ev_owner = i_owner)
        order by e.ev_id;
end;
';
    v_columns constant text := 'e.ev_id, e.ev_time, e.ev_txid, e.ev_owner, e.ev_retry, e.ev_type, e.ev_data,
                e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4';
    v_roles constant oid[] := array(
        select r.oid from pg_roles as r where r.rolname in ('pgq_admin', 'pgq_reader', 'sluice_admin', 'sluice_reader')
    );
begin
    return query
        select l.id, concat_ws(
            '; ',
            case when is_current.text is not true then format(
                'create or replace function pgq.%I(%s) returns %s language plpgsql stable %s as %L',
                f.name, f.arguments, f.result,
                (select string_agg('set ' || replace(s, '=', ' = '), ' ') from unnest(wanted.settings) as s),
                wanted.body
            ) end,
            case when is_current.comment is not true then format('comment on function pgq.%I is %L', f.name, f.comment) end,
            case when is_current.rights is not true then format('revoke execute on function pgq.%I from public', f.name) end,
            case when is_current.rights is not true then (
                select string_agg(format('grant execute on function pgq.%I to %I', f.name, r.oid::regrole::text), '; ')
                from unnest(v_roles) as r (oid)
            ) end
        )
        from unnest(i_queue_ids) as l (id)
        cross join lateral (select format('tick_%s', l.id), format('event_%s', l.id)) as log (ticks, events)
        cross join lateral (values
            (1, log.ticks || '_after', 'i_tick_id bigint', 'pgq.tick', v_after, 'The first tick of a log after a tick.'),
            (2, log.ticks || '_last', '', 'pgq.tick', v_last, 'The newest tick of a log.'),
            (
                3, log.events || '_any', 'i_after pg_snapshot, i_upto pg_snapshot', 'boolean', v_any,
                'True if a log has an event that the second snapshot sees and the first does not.'
            ),
            (
                4, log.ticks || '_window', 'i_after_tick bigint, i_after pg_snapshot, i_event_seq bigint', 'pgq.tick', v_window,
                'The first tick after a snapshot at which a log had i_event_seq events, or the last of the next hundred. '
                'If there is none, only the id of the last tick that the snapshot covers.'
            ),
            (
                5, log.events || '_outside',
                'i_after pg_snapshot, i_upto pg_snapshot, i_from_ev_id bigint, i_upto_ev_id bigint, i_owner integer, i_qty integer',
                'SETOF pgq.event_template', v_outside,
                'Events of a window, looked up by transaction, between two numbers.'
            ),
            (
                6, log.events || '_next',
                'i_after pg_snapshot, i_after_seq bigint, i_upto pg_snapshot, i_upto_seq bigint, i_after_ev_id bigint, '
                'i_owner integer, i_qty integer',
                'pgq.event_template[]', v_next,
                'The next events of a window, by number. More than requested only if they share the last number.'
            ),
            (
                7, log.events || '_claimed',
                'i_after pg_snapshot, i_upto pg_snapshot, i_after_ev_id bigint, i_upto_ev_id bigint, i_owner integer, '
                'i_ev_ids bigint[]',
                'SETOF pgq.event_template', v_claimed,
                'The events with the given numbers in a part of a window.'
            )
        ) as f (position, name, arguments, result, body, comment)
        cross join lateral (
            select format(f.body, log.ticks, log.events, log.events || '_outside', v_columns),
                -- The index returns the rows of a window in order: a sort would read them all.
                v_settings || case when f.body = v_next then array['enable_sort=off', 'jit=off'] end
        ) as wanted (body, settings)
        left join pg_proc as p on p.pronamespace = 'pgq'::regnamespace and p.proname = f.name::name
        left join lateral (
            select array_agg(a.grantee) as roles
            from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
            where a.privilege_type = 'EXECUTE'
        ) as granted on true
        cross join lateral (
            select
                p.prosrc = wanted.body
                    and p.proconfig = wanted.settings
                    and p.provolatile = 's'
                    and not p.prosecdef
                    and pg_get_function_arguments(p.oid) = f.arguments
                    and pg_get_function_result(p.oid) = f.result,
                obj_description(p.oid, 'pg_proc') = f.comment,
                granted.roles @> v_roles and 0::oid <> all (granted.roles)
        ) as is_current (text, comment, rights)
        where (is_current.text and is_current.comment and is_current.rights) is not true
        order by l.id, f.position;
end;
$$;

comment on function pgq._outdated_functions(integer[]) is
    'List the functions of event logs that differ from this release, with the statements that correct them.';
revoke execute on function pgq._outdated_functions(integer[]) from public;
grant execute on function pgq._outdated_functions(integer[]) to pgq_admin, sluice_admin;
