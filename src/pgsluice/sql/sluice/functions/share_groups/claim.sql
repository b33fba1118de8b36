-- Runs under the group's lock, with a statement for each step, so that each sees the changes of earlier lock holders.
-- This is the hot path: the statements of sluice._lock_group, _last_claim and _next_claim, and pgq._is_restored, are inlined.
create or replace function sluice.claim(
    log_name text, group_name text, qty integer default 1, lease interval default null, synchronous boolean default true,
    types text[] default null, others boolean default false
)
returns setof sluice.claimed_event
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_ev_id_max constant bigint := 9223372036854775807; -- marks an exhausted window
    v_lock_class constant integer := 1936221042;
    v_group sluice.share_group;
    v_is_first boolean;
    v_claim sluice.claim;
    v_types text[] := '{}';
    v_is_except boolean := true;
    v_step record;
    v_events pgq.event_template[];
    v_is_news boolean := false;
    v_now timestamptz;
    v_is_busy boolean;
    v_is_last boolean := false;
    v_left integer;
    v_is_settled boolean;
    v_upto_tick bigint;
begin
    if qty is null or qty < 1 or lease <= '0' or lease > '100 years' then
        raise exception using
            errcode = '22023',
            message = format('invalid claim of %s events for %s', coalesce(qty::text, 'null'), coalesce(lease::text, 'the lease of the group')),
            hint = 'claim 1 event or more, for more than 0 and up to 100 years';
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        perform sluice._lock_group(log_name, group_name); -- raises the error
    end if;
    select g.*
    into v_group
    from sluice.share_group as g
    join sluice.lock as l on l.class = v_lock_class and l.id = g.group_id
    where g.log_name = claim.log_name and g.group_name = claim.group_name
    for update of l skip locked;
    if not found then
        v_group := sluice._require_group(log_name, group_name);
        perform sluice._wait_for_group(v_group);
    end if;
    if not synchronous then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    loop
        v_is_first := (select l.number from sluice.ledger as l) = 0;
        if v_is_first then
            select c.* into v_claim from sluice.claim_0 as c where c.group_id = v_group.group_id order by c.claim_id desc limit 1;
        else
            select c.* into v_claim from sluice.claim_1 as c where c.group_id = v_group.group_id order by c.claim_id desc limit 1;
        end if;
        -- Checked again: the table may have been emptied while this session waited for its lock on it. From here on it cannot be, so the next claim
        -- finds the newest claim of the group.
        exit when v_is_first = ((select l.number from sluice.ledger as l) = 0);
    end loop;
    if v_claim.claim_id is null then
        v_claim := sluice._last_claim(v_group.group_id); -- the group has written nothing since the last switch
    end if;
    if v_claim.open_claim is null then
        -- Dropped while this session waited; there may be a new group of the same name.
        if (sluice._require_group(log_name, group_name)).group_id = v_group.group_id then
            raise exception using
                errcode = 'SG004',
                message = format('share group %L has lost its claims', group_name),
                detail = 'Its ledger was emptied by hand, or restored without its rows.',
                hint = 'create it anew where it stopped: sluice.list_log_problems() has the statements; its retries are lost';
        end if;
        return query select c.* from sluice.claim(log_name, group_name, qty, lease, synchronous, types, others) as c;
        return;
    elsif v_group.lost is not null then
        perform pgq._refuse_lost(v_group.sub_key, v_group.lost);
    elsif (select count(*) from pgq.origin as o where o.queue_id = v_group.queue_id and o.made_by = o.xmin) <> 2 then
        -- pgq._is_restored. The snapshots of another server's window see events that are inserted here since the restore.
        perform pgq._refuse_restored(v_group.queue_id);
    end if;
    -- The position cannot move if no claim is open and the window is exhausted, until the next tick. The check includes the window, because a claim row that
    -- maintenance wrote is empty, but the claim before it may not have exhausted the window.
    v_is_settled := v_claim.events + v_claim.redeliveries = 0
        and v_claim.open_claim = v_claim.claim_id
        and v_claim.upto_ev_id = v_ev_id_max;
    v_upto_tick := v_claim.upto_tick;
    -- The group clock and the number of the claim: see sluice._next_claim.
    v_now := clock_timestamp();
    if v_now + v_claim.clock_shift < v_claim.claimed_at then
        v_claim.clock_shift := make_interval(secs => (extract(epoch from v_claim.claimed_at - v_now) + 1)::double precision);
        v_is_news := true; -- store the shift, or group time would stand still
    end if;
    v_claim.claimed_at := v_now + v_claim.clock_shift;
    v_claim.claim_id := greatest(v_claim.claim_id + 1, (extract(epoch from v_claim.claimed_at) * 1000000)::bigint);
    v_claim.lease_until := null;
    v_claim.from_ev_id := v_claim.upto_ev_id;
    v_claim.events := 0;
    v_claim.from_due := v_claim.upto_due;
    v_claim.from_redelivery := v_claim.upto_redelivery;
    v_claim.redeliveries := 0;
    -- Does this member leave events to others? Then its claim stores its events.
    if types is not null and not (v_group.types <@ types and (others or not v_group.has_others and v_group.unhandled <> 'leave')) then
        v_step := sluice._member_types(v_group, types, others);
        v_types := v_step.types;
        v_is_except := v_step.is_except;
    end if;
    v_claim.is_stored := v_group.key is not null or v_claim.left_lanes is not null or not v_is_except or v_types <> '{}';

    -- Unread acknowledgements? This test may also match read ones, if an older transaction is still running: sluice._read_outcomes decides exactly.
    if exists (
            select
            from sluice.outcome_0 as o
            where o.group_id = v_claim.group_id and o.is_backlog and o.outcome_txid >= pg_snapshot_xmin(v_claim.backlog_snapshot)
        )
        or exists (
            select
            from sluice.outcome_1 as o
            where o.group_id = v_claim.group_id and o.is_backlog and o.outcome_txid >= pg_snapshot_xmin(v_claim.backlog_snapshot)
        )
    then
        v_step := sluice._read_outcomes(v_group, v_claim);
        v_claim := v_step.claim;
        v_is_news := v_is_news or v_step.is_news;
    end if;
    if v_is_news or v_claim.claimed_at >= v_claim.look_at then
        v_step := sluice._expire_leases(v_group, v_claim);
        v_is_busy := v_step.is_busy;
        v_is_news := v_is_news or v_step.is_news or v_is_busy; -- so that the next claim does not check them again
        if v_claim.is_stored then
            v_step := sluice._take_keyed_redeliveries(v_group, qty, v_types, v_is_except, v_step.claim);
        else
            v_step := sluice._take_redeliveries(v_group, qty, v_step.claim);
        end if;
        v_is_news := v_is_news or v_step.is_news;
        v_claim := v_step.claim;
        v_claim.look_at := sluice._next_look(v_claim, v_is_busy);
    end if;
    if v_claim.left_lanes is not null and v_claim.redeliveries < qty then
        v_step := sluice._take_left(v_group, qty, v_types, v_is_except, v_claim);
        v_claim := v_step.claim;
        v_is_news := v_is_news or v_step.is_news;
    end if;
    -- The next events of the window, in the order of ev_id. When it is exhausted, continue with the next windows, up to one that ends now.
    v_left := qty - v_claim.redeliveries;
    if v_left > 0 and v_claim.is_stored then
        v_step := sluice._take_keyed_events(v_group, v_left, v_types, v_is_except, v_claim);
        v_claim := v_step.claim;
        v_is_news := v_is_news or v_step.is_news;
        v_left := 0;
    end if;
    while v_left > 0 and v_events is null
    loop
        if v_claim.upto_ev_id = v_ev_id_max then
            v_step := sluice._next_window(v_group, v_claim, v_left);
            v_claim := v_step.claim;
            v_is_last := v_step.is_last;
        end if;
        v_claim.from_ev_id := v_claim.upto_ev_id;
        if v_is_last and v_claim.upto_snapshot::text = v_claim.after_snapshot::text then
            v_claim.upto_ev_id := v_ev_id_max;
            exit; -- no transaction has committed since
        end if;
        execute format('select pgq.event_%s_next($1, $2, $3, $4, $5, $6, $7)', v_group.queue_id)
        using v_claim.after_snapshot, v_claim.after_seq, v_claim.upto_snapshot, v_claim.upto_seq, v_claim.from_ev_id, v_group.owner, v_left
        into v_events;
        v_claim.events := cardinality(v_events);
        v_claim.upto_ev_id := case when v_claim.events < v_left then v_ev_id_max else v_events[v_claim.events].ev_id end;
        if v_claim.events = 0 and not v_is_last then
            v_events := null;
        end if;
    end loop;
    if v_claim.events + v_claim.redeliveries < qty then
        perform pgq._admit_due(); -- due delayed events become events; the next claim returns them
    end if;
    -- The lease starts at the end of the claim.
    v_claim.claimed_at := greatest(v_claim.claimed_at, clock_timestamp() + v_claim.clock_shift);
    if v_claim.claimed_at not between v_claim.moved_at and v_claim.moved_at + interval '1 second'
        and not (v_is_settled and v_claim.events + v_claim.redeliveries = 0 and v_claim.upto_tick = v_upto_tick)
    then
        v_step := sluice._move_group(v_group, v_claim);
        v_is_news := v_is_news or v_step.is_news or (v_step.claim).open_claim > v_claim.open_claim;
        v_claim := v_step.claim;
    end if;
    if v_claim.events + v_claim.redeliveries > 0 then
        v_claim.lease_until := v_claim.claimed_at + coalesce(claim.lease, v_group.lease);
        v_claim.look_at := least(v_claim.look_at, v_claim.lease_until);
    elsif not v_is_news then
        return;
    end if;
    if v_is_first then
        insert into sluice.claim_0 values (v_claim.*);
    else
        insert into sluice.claim_1 values (v_claim.*);
    end if;

    if v_claim.is_stored then
        return query
            select v_claim.claim_id, e.ev_id, e.ev_time, e.ev_txid, e.attempts + 1, e.deliveries + 1, e.redriven, v_claim.lease_until - v_claim.clock_shift,
                e.ev_type, e.ev_data, e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4, e.key
            from sluice._claimed_events(v_group, v_claim, null::bigint[]) as e;
        return;
    end if;
    if v_claim.redeliveries > 0 then
        return query
            select v_claim.claim_id, r.ev_id, r.ev_time, r.ev_txid, r.attempts + 1, r.deliveries + 1, r.redriven, v_claim.lease_until - v_claim.clock_shift,
                r.ev_type, r.ev_data, r.ev_extra1, r.ev_extra2, r.ev_extra3, r.ev_extra4, null::text
            from sluice.redelivery as r
            where r.group_id = v_claim.group_id
              and (r.due_at, r.redelivery_id) > (v_claim.from_due, v_claim.from_redelivery)
              and (r.due_at, r.redelivery_id) <= (v_claim.upto_due, v_claim.upto_redelivery)
              and r.look_at is null
            order by r.due_at, r.redelivery_id;
    end if;
    return query
        select v_claim.claim_id, e.ev_id, e.ev_time, e.ev_txid, 1, 1, coalesce(e.ev_retry, 0), v_claim.lease_until - v_claim.clock_shift,
            e.ev_type, e.ev_data, e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4, null::text
        from unnest(v_events) as e;
end;
$$;

comment on function sluice.claim(text, text, integer, interval, boolean, text[], boolean) is
    'Claim up to qty events for a share group: first redeliveries, then new events. Returns no rows if there are none; it never waits for events. types: only events of these types, and with others those of all types that no handler is declared for as well; the rest is left to other members. Null: all.';
revoke execute on function sluice.claim(text, text, integer, interval, boolean, text[], boolean) from public;
grant execute on function sluice.claim(text, text, integer, interval, boolean, text[], boolean) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
