-- A key is free for this claim if no other claim has it and no event waits for it, or if this claim just took it. The events of a key here, which are in
-- the order of the log, are taken up to the first one of a type that the member does not handle. If that is the first of the key, the key is left to the
-- members that handle its type.
create or replace function sluice._sort_events(
    i_group sluice.share_group, i_qty integer, i_types text[], i_is_except boolean, inout claim sluice.claim, i_events pgq.event_template[],
    out taken integer, out upto_ev_id bigint
)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_events sluice.redelivery[];
    v_turns sluice.key_turn[];
    v_parked text[];
    v_fate jsonb; -- of keys that are not free
    v_kinds text[]; -- by position: take, wait, park or leave
    v_part sluice.redelivery[];
begin
    select array_agg(
        row(
            i_group.group_id, null, null, null, e.ev_id, e.ev_time, e.ev_txid, e.ev_type, e.ev_data,
            e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4, coalesce(e.ev_retry, 0), 0, 0, null,
            sluice._event_key(i_group.key, e.ev_type, e.ev_data, e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4), null
        )::sluice.redelivery
        order by e.position
    )
    into v_events
    from unnest(i_events) with ordinality as e (
        ev_id, ev_time, ev_txid, ev_owner, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4, position
    );
    -- As sluice._last_turn, for all keys.
    select coalesce(
        array_agg(
            coalesce(t.turn, row(i_group.group_id, k.key, null, null, null, '-infinity', '{}'::bigint[], 0, 0)::sluice.key_turn)
        ),
        '{}'
    )
    into v_turns
    from (select distinct e.key from unnest(v_events) as e where e.key is not null) as k
    left join lateral (
        select n as turn
        from sluice.key_turn as n
        where n.group_id = i_group.group_id and n.key = k.key
        order by n.turn_id desc
        limit 1
    ) as t on true;
    v_parked := sluice._parked_keys(i_group, array(select t.key from unnest(v_turns) as t));
    select coalesce(jsonb_object_agg(t.key, case when f.is_idle then 'park' else 'wait' end), '{}')
    into v_fate
    from unnest(v_turns) as t
    cross join lateral (
        select t.waiting = 0 and t.returned = '{}' and t.claim_id is null as is_idle,
            t.waiting = 0 and t.returned = '{}' and t.claim_id = claim.claim_id as is_own,
            t.key = any (v_parked) as is_parked
    ) as f
    where f.is_parked or not (f.is_idle or f.is_own is true);

    if i_is_except and i_types = '{}' then
        v_kinds := array(
            select coalesce(v_fate ->> e.key, 'take')
            from unnest(v_events) with ordinality as e (
                group_id, due_at, redelivery_id, look_at, ev_id, ev_time, ev_txid, ev_type, ev_data,
                ev_extra1, ev_extra2, ev_extra3, ev_extra4, redriven, attempts, deliveries, error, key, place, position
            )
            order by e.position
        );
    else
        v_kinds := array(
            select case
                when e.key is null then case when e.is_other then 'leave' else 'take' end
                when v_fate ? e.key then v_fate ->> e.key
                when bool_or(e.is_other) over (partition by e.key order by e.position) then 'wait'
                else 'take'
            end
            from (
                select u.key, u.position, (coalesce(u.ev_type, '') = any (i_types)) = i_is_except as is_other
                from unnest(v_events) with ordinality as u (
                    group_id, due_at, redelivery_id, look_at, ev_id, ev_time, ev_txid, ev_type, ev_data,
                    ev_extra1, ev_extra2, ev_extra3, ev_extra4, redriven, attempts, deliveries, error, key, place, position
                )
            ) as e
            order by e.position
        );
    end if;

    -- Up to the last event needed, with those of the same number. The rest stays in the window.
    select (v_events[k.position]).ev_id
    into upto_ev_id
    from unnest(v_kinds) with ordinality as k (kind, position)
    where k.kind = 'take'
    order by k.position
    offset i_qty - 1
    limit 1;
    if upto_ev_id = (v_events[cardinality(v_events)]).ev_id then
        upto_ev_id := null;
    end if;
    select array_agg(
        row(
            e.group_id, null, e.place, e.position, e.ev_id, e.ev_time, e.ev_txid, e.ev_type, e.ev_data,
            e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4, e.redriven, 0, 0, null, e.key, e.place
        )::sluice.redelivery
        order by e.place
    )
    into v_events
    from (
        select n.*, nextval('sluice.key_place_seq') as place
        from (
            select u.group_id, u.ev_id, u.ev_time, u.ev_txid, u.ev_type, u.ev_data, u.ev_extra1, u.ev_extra2, u.ev_extra3, u.ev_extra4,
                u.redriven, u.key, u.position
            from unnest(v_events) with ordinality as u (
                group_id, due_at, redelivery_id, look_at, ev_id, ev_time, ev_txid, ev_type, ev_data,
                ev_extra1, ev_extra2, ev_extra3, ev_extra4, redriven, attempts, deliveries, error, key, place, position
            )
            where upto_ev_id is null or u.ev_id <= upto_ev_id
            order by u.position
        ) as n
    ) as e;

    select array_agg(e order by e.place), count(*) into v_part, taken from unnest(v_events) as e where v_kinds[e.look_at] = 'take';
    perform sluice._write_key_events(claim.claim_id, v_part);
    select array_agg(e order by e.place) into v_part from unnest(v_events) as e where v_kinds[e.look_at] = 'wait';
    perform sluice._write_waiting(v_part, false);
    select array_agg(e order by e.place) into v_part from unnest(v_events) as e where v_kinds[e.look_at] = 'park';
    perform sluice._dead_letter(i_group, claim.claim_id, v_part, 'parked', null::jsonb);
    select array_agg(e order by e.place) into v_part from unnest(v_events) as e where v_kinds[e.look_at] = 'leave';
    claim := sluice._leave(v_part, claim);
    -- The turns of keys with events that wait, and of keys that were free.
    select array_agg(
        case
            when v_fate ? t.key then row(
                t.group_id, t.key, null, t.claim_id, t.since, t.due_at, t.returned,
                case when t.waiting = 0 then n.first_waiting - 1 else t.upto_waiting end, t.waiting + n.waiting
            )::sluice.key_turn
            else row(
                t.group_id, t.key, null, case when n.taken > 0 then claim.claim_id else t.claim_id end, clock_timestamp(), '-infinity', '{}'::bigint[],
                coalesce(n.first_waiting - 1, t.upto_waiting), n.waiting
            )::sluice.key_turn
        end
    )
    into v_turns
    from unnest(v_turns) as t
    join (
        select e.key, count(*) filter (where v_kinds[e.look_at] = 'take') as taken, count(*) filter (where v_kinds[e.look_at] = 'wait') as waiting,
            min(e.place) filter (where v_kinds[e.look_at] = 'wait') as first_waiting
        from unnest(v_events) as e
        group by e.key
    ) as n using (key)
    where n.waiting > 0 or (v_fate ? t.key) is false and t.claim_id is null;
    perform sluice._write_turns(v_turns);
    if not (i_is_except and i_types = '{}') then
        select array_agg(f.first order by (f.first).key)
        into v_part
        from (
            select row(
                    null, null, null, null, null, null, null, e.ev_type, null, null, null, null, null, null, null, null, null, e.key, null
                )::sluice.redelivery as first
            from unnest(v_turns) as t
            join lateral (
                select w.ev_type, w.key
                from unnest(v_events) as w
                where w.key = t.key
                order by w.place
                limit 1
            ) as e on true
            where t.claim_id is null and (v_fate ? t.key) is false
        ) as f;
        claim := sluice._leave(v_part, claim);
    end if;
end;
$$;

comment on function sluice._sort_events(sluice.share_group, integer, text[], boolean, sluice.claim, pgq.event_template[]) is
    'Take the next events of a log whose keys are free for a claim and whose types the member handles, at most qty, and store the others as waiting; returns the number taken, and the last event processed, null for all.';
revoke execute on function sluice._sort_events(sluice.share_group, integer, text[], boolean, sluice.claim, pgq.event_template[]) from public;
grant execute on function sluice._sort_events(sluice.share_group, integer, text[], boolean, sluice.claim, pgq.event_template[]) to pgq_admin, sluice_admin;
