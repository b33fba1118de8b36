/*
 * See sluice.explain_message for the columns. Consumers and share groups each have a row: the event is finished by it, in an
 * open batch, claimed, or not reached yet. Share groups: as of the last claim.
 *
 * Calls: sluice._find_event, sluice._explain_event_readers, sluice._explain_ticks.
 */
create or replace function sluice.explain_event(queue_name text, ev_id bigint)
returns table (ordinal integer, section text, at timestamptz, fact text, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_log constant pgq.queue := pgq._require_log(queue_name);
    v_newest constant bigint := pgq._event_seq(v_log.queue_id);
    v_tick constant pgq.tick := pgq._last_tick(v_log.queue_id);
    e record;
    v_state text;
begin
    select f.* into e from sluice._find_event(v_log.queue_id, ev_id) as f;
    v_state := case
        when ev_id < 1 or ev_id > v_newest then 'unknown'
        when e.ev_txid is null then 'gone'
        when pg_visible_in_snapshot(e.ev_txid, v_tick.tick_snapshot) then 'readable'
        else 'before a tick'
    end;
    return query
        select (row_number() over (order by part.number, part.position))::integer, part.section,
            case when isfinite(part.at) then part.at end, part.fact, jsonb_strip_nulls(part.detail)
        from (
            select 1 as number, 1::bigint as position, 'state' as section, e.ev_time as at,
                case
                    when ev_id < 1 then format('Log %s never had an event %s: ids start at 1', queue_name, ev_id)
                    when v_state = 'unknown' then format('Log %s never had an event %s: the newest id is %s', queue_name, ev_id, v_newest)
                    when v_state = 'gone' and not e.is_searched then
                        format('Event %s of log %s was not found among the first 50000 events around its id', ev_id, queue_name)
                    when v_state = 'gone' then format('Event %s of log %s is not in the log; its id was used, the newest is %s', ev_id, queue_name, v_newest)
                    else format('Event %s is in log %s; it was inserted', ev_id, queue_name)
                end as fact,
                jsonb_build_object('state', v_state, 'queue_name', queue_name, 'ev_id', ev_id, 'newest_ev_id', v_newest) as detail
            union all
            select 2, 1, 'reason', null, 'Its segment was truncated after all consumers had finished it, or its transaction is open or was rolled back',
                '{"cause": "gone"}'
            where v_state = 'gone' and e.is_searched
            union all
            select 3, 1, 'reason', v_tick.tick_time, 'No tick covers it yet, so no consumer of batches can read it; the newest tick was made',
                '{"cause": "before a tick"}'
            where v_state = 'before a tick'
            union all
            select 4, t.position, 'reason', t.at, t.fact, t.detail
            from sluice._explain_ticks(v_log) with ordinality as t (at, fact, detail, position)
            where v_state = 'before a tick' and t.detail ->> 'cause' <> 'next tick'
            union all
            select case r.section when 'history' then 1 when 'reason' then 5 else 6 end, r.position + 1, r.section, r.at, r.fact, r.detail
            from sluice._explain_event_readers(v_log, ev_id, e.ev_txid) with ordinality as r (section, at, fact, detail, position)
            where e.ev_txid is not null
        ) as part
        order by 1;
end;
$$;

comment on function sluice.explain_event(text, bigint) is
    'Explain an event of a log: whether it is there, and for each consumer and share group whether it has finished it, and if not, why; one row per fact, with the time it refers to.';
revoke execute on function sluice.explain_event(text, bigint) from public;
grant execute on function sluice.explain_event(text, bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
