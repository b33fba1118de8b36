/*
 * See sluice.explain_queue for the rows. Up to ten open claims and ten blocked keys. Reads the lock of the group as
 * sluice._wait_for_lock does. Calls: sluice.list_groups, sluice.list_types.
 */
create or replace function sluice.explain_group(log_name text, group_name text)
returns table (section text, at timestamptz, cause text, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_lock_class constant integer := 1936221042;
    v_shown_max constant integer := 10;
    v_group constant sluice.share_group := sluice._require_group(log_name, group_name);
    v_claim constant sluice.claim := sluice._last_claim(v_group.group_id);
    v_may_read constant boolean := sluice._may_read('sluice.dead_letter_event'::regclass);
    v_log pgq.queue;
    i record;
    v_locked bigint;
    v_blocked bigint := 0;
begin
    select q.* into v_log from pgq.queue as q where q.queue_id = v_group.queue_id;
    -- As in sluice._group_state. It finds the oldest event and counts all dead ones, which takes long in a group far behind.
    select greatest(0, pgq._event_seq(v_group.queue_id) - case
            when v_claim.upto_ev_id = 9223372036854775807 then v_claim.upto_seq
            else greatest(v_claim.upto_ev_id, v_claim.after_seq)
        end) as lag_events,
        null::double precision as lag_s,
        (select coalesce(sum(c.events - c.settled), 0) from sluice.list_claims(log_name, group_name) as c) as leased,
        null::bigint as retrying,
        (
            select count(*)
            from (
                select
                from sluice.dead_letter_event as d
                where d.queue_name = v_group.log_name and d.consumer_name = v_group.group_name
                limit 1000
            ) as d
        ) as dead
    into i;
    if i.lag_events <= 10000 and i.dead < 1000 then
        select g.lag_events, g.lag_s, g.leased, g.retrying, g.dead into i from sluice.list_groups(log_name, group_name) as g;
    end if;
    return query values
        (
            'state', case when i.lag_events > 0 then clock_timestamp() - make_interval(secs => i.lag_s) end, 'share group',
            jsonb_build_object(
                'state', case when v_group.lost is not null then 'lost' when i.lag_events > 0 then 'behind' else 'up to date' end,
                'log_name', v_group.log_name, 'group_name', group_name,
                'lag_events', i.lag_events, 'leased', i.leased, 'retrying', i.retrying, 'dead', i.dead, 'at_least', i.dead = 1000
            )
        ),
        ('history', v_group.created_at, 'created', '{}'),
        ('history', v_claim.claimed_at - v_claim.clock_shift, 'claim cursor', '{}');

    if v_group.lost is not null then
        return query values ('reason', null::timestamptz, 'position lost', jsonb_build_object('lost', v_group.lost));
    else
        return query
            select 'reason', null::timestamptz, 'group locked', jsonb_build_object('session', sluice._session(k.pid))
            from sluice.lock as l
            join pg_locks as k on k.locktype = 'transactionid' and k.transactionid = l.xmax and k.mode = 'ExclusiveLock' and k.granted
            where l.class = v_lock_class and l.id = v_group.group_id and k.pid <> pg_backend_pid();
        get diagnostics v_locked = row_count;
        return query
            select 'reason', c.lease_until, case when c.lease_until > clock_timestamp() then 'claim' else 'expired claim' end,
                jsonb_build_object(
                    'claim_id', c.claim_id, 'claimed_at', c.claimed_at, 'events', c.events, 'settled', c.settled, 'renewals', c.renewals
                )
            from sluice.list_claims(log_name, group_name) as c
            order by c.claim_id
            limit v_shown_max;
        if v_group.key is not null then
            return query
                select 'reason', case b.reason when 'retrying' then b.due_at else b.since end, 'group key ' || b.reason,
                    jsonb_build_object(
                        'key', case when v_may_read then b.key end, 'waiting', b.waiting, 'ev_id', b.ev_id, 'claim_id', b.claim_id
                    )
                from sluice.list_blocked_keys(log_name, group_name) as b
                limit v_shown_max;
            get diagnostics v_blocked = row_count;
        end if;
        if i.lag_events = 0 then
            return query values ('reason', null::timestamptz, 'all claimed', '{}'::jsonb);
        elsif v_locked + v_blocked = 0 then
            return query select 'reason', w.* from sluice._explain_workers(format('log %s group %s', v_group.log_name, v_group.group_name)) as w;
        end if;
    end if;
    return query
        select 'reason', f.at, f.cause,
            jsonb_build_object(
                'ev_type', t.ev_type, 'waiting', t.waiting, 'waiting_keys', t.waiting_keys, 'handler', t.handler, 'app', t.app,
                'workers', t.workers, 'accepted', t.accepted, 'dead_lettered', t.dead_lettered
            )
        from sluice.list_types(log_name, group_name) as t
        cross join lateral (
            values ('type waits', t.since, t.waiting + t.waiting_keys > 0), ('type unhandled', t.last_unhandled_at, t.accepted + t.dead_lettered > 0)
        ) as f (cause, at, applies)
        where f.applies;
    return query select 'reason', f.* from sluice._explain_failures(v_group.log_name, group_name, v_may_read) as f;
    return query
        select 'next', n.due_at, 'redelivery', '{}'::jsonb
        from sluice.next_group_due(log_name, group_name, null::timestamptz, null::text[], false) as n (due_at)
        where n.due_at is not null;
    if i.lag_events > 0 and v_group.lost is null then
        return query values ('next', null::timestamptz, 'next claim', '{}'::jsonb);
    end if;
end;
$$;

comment on function sluice.explain_group(text, text) is
    'Explain a share group: its events by state, its open claims and their leases, and why events are not claimed; one row per fact, with the time it refers to, a word for it, and its values.';
revoke execute on function sluice.explain_group(text, text) from public;
grant execute on function sluice.explain_group(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
