-- See sluice.explain_message for the columns. Calls: sluice._explain_ticks, sluice._explain_position.
create or replace function sluice.explain_consumer(queue_name text, consumer_name text)
returns table (ordinal integer, section text, at timestamptz, fact text, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_log constant pgq.queue := pgq._require_log(queue_name);
    v_standing constant pgq.standing := sluice._require_consumer(v_log, consumer_name);
    v_may_read constant boolean := sluice._may_read(format('pgq.event_%s', v_log.queue_id)::regclass);
begin
    return query
        select (row_number() over (order by part.number, part.position))::integer, part.section,
            case when isfinite(part.at) then part.at end, part.fact, jsonb_strip_nulls(part.detail)
        from (
            select 1 as number, 1::bigint as position, 'state' as section, v_standing.pos_last_time as at,
                format('Consumer %s of log %s has finished all events up to tick %s', consumer_name, v_log.queue_name, v_standing.pos_last_tick) as fact,
                jsonb_build_object(
                    'state', case
                        when v_standing.pos_lost is not null then 'lost'
                        when v_standing.pos_batch is not null then 'in batch'
                        else 'idle'
                    end,
                    'queue_name', v_log.queue_name, 'consumer_name', consumer_name, 'last_tick', v_standing.pos_last_tick
                ) as detail
            union all
            select 2, 1, 'history', v_standing.pos_active, 'It last opened or finished a batch', '{}'
            union all
            select 3, r.position, 'reason', r.at, r.fact, r.detail
            from sluice._explain_position(v_log, consumer_name) with ordinality as r (at, fact, detail, position)
            union all
            select 4, r.position, 'reason', r.at, r.fact, r.detail
            from sluice._explain_ticks(v_log) with ordinality as r (at, fact, detail, position)
            union all
            select 5, r.position, 'reason', r.at, r.fact, r.detail
            from sluice._explain_failures(v_log.queue_name, null::text, v_may_read) with ordinality as r (at, fact, detail, position)
            union all
            select 6, 1, 'next', null,
                case
                    when v_standing.pos_lost is not null then 'Nothing, until it is registered again'
                    when v_standing.pos_batch is not null then format('It finishes batch %s, then opens the next one', v_standing.pos_batch)
                    else 'It opens its next batch at the next tick after its position'
                end,
                '{}'
        ) as part
        order by 1;
end;
$$;

comment on function sluice.explain_consumer(text, text) is
    'Explain a consumer of a log: its position, and why it has not read the newest events; one row per fact, with the time it refers to.';
revoke execute on function sluice.explain_consumer(text, text) from public;
grant execute on function sluice.explain_consumer(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
