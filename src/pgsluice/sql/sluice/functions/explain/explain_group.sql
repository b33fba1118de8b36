-- See sluice.explain_message for the columns. Calls: sluice.group_info, sluice._explain_group_reason, sluice.list_types.
create or replace function sluice.explain_group(queue_name text, group_name text)
returns table (ordinal integer, section text, at timestamptz, fact text, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_group constant sluice.share_group := sluice._require_group(queue_name, group_name);
    v_claim constant sluice.claim := sluice._last_claim(v_group.group_id);
    v_may_read constant boolean := sluice._may_read('sluice.dead_letter_event'::regclass);
    v_log pgq.queue;
    i record;
begin
    select q.* into v_log from pgq.queue as q where q.queue_id = v_group.queue_id;
    -- As in sluice._group_state. It finds the oldest event and counts all dead ones, which takes long in a group far behind.
    select greatest(0, pgq._event_seq(v_group.queue_id) - case
            when v_claim.upto_ev_id = 9223372036854775807 then v_claim.upto_seq
            else greatest(v_claim.upto_ev_id, v_claim.after_seq)
        end) as lag_events,
        null::double precision as lag_s,
        (select coalesce(sum(c.events - c.settled), 0) from sluice.list_claims(queue_name, group_name) as c) as leased,
        null::bigint as retrying,
        (
            select count(*)
            from (
                select
                from sluice.dead_letter_event as d
                where d.queue_name = v_group.queue_name and d.consumer_name = v_group.group_name
                limit 1000
            ) as d
        ) as dead
    into i;
    if i.lag_events <= 10000 and i.dead < 1000 then
        select g.lag_events, g.lag_s, g.leased, g.retrying, g.dead into i from sluice.group_info(queue_name, group_name) as g;
    end if;
    return query
        select (row_number() over (order by part.number, part.position))::integer, part.section,
            case when isfinite(part.at) then part.at end, part.fact, jsonb_strip_nulls(part.detail)
        from (
            select 1 as number, 1::bigint as position, 'state' as section,
                case when i.lag_events > 0 then clock_timestamp() - make_interval(secs => i.lag_s) end as at,
                format(
                    'Share group %s of log %s: %s to claim, %s leased%s, %s dead%s', group_name, v_group.queue_name,
                    sluice._counted(i.lag_events, 'event'), i.leased, ', ' || i.retrying || ' waiting for a redelivery',
                    case when i.dead = 1000 then '1000 or more' else i.dead::text end,
                    case when i.lag_s > 0 then '; the oldest event to claim was inserted' end
                ) as fact,
                jsonb_build_object(
                    'state', case when v_group.lost is not null then 'lost' when i.lag_events > 0 then 'behind' else 'up to date' end,
                    'queue_name', v_group.queue_name, 'group_name', group_name,
                    'lag_events', i.lag_events, 'leased', i.leased, 'retrying', i.retrying, 'dead', i.dead
                ) as detail
            union all
            select 2, 1, 'history', v_group.created_at, 'It was created', '{}'
            union all
            select 2, 2, 'history', v_claim.claimed_at - v_claim.clock_shift, 'Its claim cursor last moved', '{}'
            union all
            select 3, r.position, 'reason', r.at, r.fact, r.detail
            from sluice._explain_group_reason(v_group, v_claim, i.lag_events, v_may_read) with ordinality as r (at, fact, detail, position)
            union all
            select 3, 1000 + t.position, 'reason', f.at, f.fact, jsonb_build_object('cause', f.cause, 'ev_type', t.ev_type) || f.detail
            from sluice.list_types(explain_group.queue_name, explain_group.group_name) with ordinality as t (
                ev_type, app, handler, declared_at, workers, waiting, waiting_keys, since, accepted, dead_lettered, last_unhandled_at, position
            )
            cross join lateral (
                select 'type_waits', t.since,
                    format(
                        '%s%s of type %s wait for %s', sluice._counted(t.waiting, 'event'),
                        case when t.waiting_keys > 0 then format(' and %s', sluice._counted(t.waiting_keys, 'key')) else '' end, coalesce(t.ev_type, '(none)'),
                        case
                            when t.handler is null then 'a worker that declares it'
                            when t.workers = 0 then format('handler %s of app %s, which no live worker runs', t.handler, t.app)
                            else format('handler %s of app %s', t.handler, t.app)
                        end
                    ),
                    jsonb_build_object('handler', t.handler, 'app', t.app, 'workers', t.workers)
                where t.waiting + t.waiting_keys > 0
                union all
                select 'type_unhandled', t.last_unhandled_at,
                    format(
                        'No handler is declared for type %s: workers accepted %s and dead-lettered %s of it, the last one', coalesce(t.ev_type, '(none)'),
                        sluice._counted(t.accepted, 'event'), t.dead_lettered
                    ),
                    jsonb_build_object('accepted', t.accepted, 'dead_lettered', t.dead_lettered)
                where t.accepted + t.dead_lettered > 0
            ) as f (cause, at, fact, detail)
            union all
            select 4, r.position, 'reason', r.at, r.fact, r.detail
            from sluice._explain_failures(v_group.queue_name, group_name, v_may_read) with ordinality as r (at, fact, detail, position)
            union all
            select 5, 1, 'next', n.due_at, 'A redelivery, an expired lease or a delayed event can be claimed', '{}'
            from sluice.next_group_due(queue_name, group_name, null::timestamptz, null::text[], false) as n (due_at)
            where n.due_at is not null
            union all
            select 5, 2, 'next', null, 'The next claim delivers the oldest events', '{}' where i.lag_events > 0 and v_group.lost is null
        ) as part
        order by 1;
end;
$$;

comment on function sluice.explain_group(text, text) is
    'Explain a share group: its events by state, its open claims and their leases, and why events are not claimed; one row per fact, with the time it refers to.';
revoke execute on function sluice.explain_group(text, text) from public;
grant execute on function sluice.explain_group(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
