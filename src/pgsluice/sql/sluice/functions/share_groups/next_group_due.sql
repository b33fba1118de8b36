/*
 * Time-based events of a share group are redeliveries, lease expiry, and delayed events of the log. While there is an acknowledgement backlog, which the next
 * claim reads, or events of its types that other members left, the result is now.
 *
 * When the server's clock has stepped back since the last claim, the result is now: the next claim adjusts the group clock (sluice._next_claim).
 *
 * If many settled leases or other delayed events come first, the result is an earlier time, at which to call again.
 */
create or replace function sluice.next_group_due(
    log_name text, group_name text, after timestamptz default null, types text[] default null, others boolean default false
)
returns timestamptz
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_leases_max integer := 100;
    v_delayed_max constant integer := 1000;
    v_leases integer := 0;
    v_after constant timestamptz := coalesce(after, clock_timestamp());
    v_group constant sluice.share_group := sluice._require_group(log_name, group_name);
    v_claim constant sluice.claim := sluice._last_claim(v_group.group_id);
    v_member record;
    v_pass pgq.retry_pass;
    v_lease record;
    v_again timestamptz;
    v_lease_until timestamptz;
    v_delayed timestamptz;
begin
    perform
    from sluice.outcome as o
    where o.group_id = v_group.group_id
      and o.is_backlog
      and o.outcome_txid >= pg_snapshot_xmin(v_claim.backlog_snapshot)
      and not pg_visible_in_snapshot(o.outcome_txid, v_claim.backlog_snapshot)
    limit 1;
    if found or clock_timestamp() + v_claim.clock_shift < v_claim.claimed_at then
        return clock_timestamp();
    end if;

    -- The last claim was empty although its window is not exhausted: it has visited all the events that it may, and the next one continues.
    if v_claim.is_stored and v_claim.lease_until is null and v_claim.upto_ev_id <> 9223372036854775807 then
        return clock_timestamp();
    end if;
    if v_claim.left_lanes is not null then
        v_member := sluice._member_types(v_group, types, others);
        if exists (
            select from jsonb_object_keys(v_claim.left_lanes) as l (lane) where (l.lane = any (v_member.types)) <> v_member.is_except
        ) then
            return clock_timestamp();
        end if;
    end if;

    select r.due_at
    into v_again
    from sluice.redelivery as r
    where r.group_id = v_group.group_id
      and (r.due_at, r.redelivery_id) > (v_claim.upto_due, v_claim.upto_redelivery)
      and r.due_at > v_after + v_claim.clock_shift
    order by r.due_at, r.redelivery_id
    limit 1;

    -- A worker calls this before each wait, and each lease costs a look at its outcomes, about 4 us. A group with a claim in
    -- the last second will probably have the next one before these leases end.
    if v_claim.claimed_at > clock_timestamp() + v_claim.clock_shift - interval '1 second' then
        v_leases_max := 10;
    end if;
    for v_lease in
        select c.lease_until,
            c.events + c.redeliveries > (
                select coalesce(sum(o.events), 0)
                from sluice.outcome as o
                where o.group_id = c.group_id and o.claim_id = c.claim_id
            ) as is_open
        from sluice.claim as c
        where c.group_id = v_group.group_id
          and (c.lease_until, c.claim_id) > (v_claim.lapsed_until, v_claim.lapsed_claim)
          and c.lease_until > v_after + v_claim.clock_shift
        order by c.lease_until, c.claim_id
        limit v_leases_max
    loop
        v_leases := v_leases + 1;
        if v_lease.is_open or v_leases = v_leases_max then
            v_lease_until := v_lease.lease_until;
            exit;
        end if;
    end loop;

    if pg_relation_size('pgq.retry_entry_0') + pg_relation_size('pgq.retry_entry_1') = 0 then
        return least(v_again - v_claim.clock_shift, v_lease_until - v_claim.clock_shift);
    end if;
    v_pass := pgq._last_retry_pass();
    select coalesce(
            min(e.ev_retry_after) filter (where e.ev_queue = v_group.queue_id and (e.ev_owner is null or e.ev_owner = v_group.owner)),
            case when count(*) = v_delayed_max then max(e.ev_retry_after) end
        )
    into v_delayed
    from (
        select d.ev_queue, d.ev_owner, d.ev_retry_after
        from pgq.retry_entry as d
        where (d.ev_retry_after, d.entry_id) > (v_pass.pass_time, v_pass.pass_entry)
          and d.ev_retry_after > v_after
        order by d.ev_retry_after, d.entry_id
        limit v_delayed_max
    ) as e;
    return least(v_again - v_claim.clock_shift, v_lease_until - v_claim.clock_shift, v_delayed);
end;
$$;

comment on function sluice.next_group_due(text, text, timestamptz, text[], boolean) is
    'Return the next time after a given one (null: now) at which a claim of a share group may find an event without a new one being inserted: a redelivery, an expired lease, a delayed event, an event left by another member; null if there is none. The types are as for sluice.claim.';
revoke execute on function sluice.next_group_due(text, text, timestamptz, text[], boolean) from public;
grant execute on function sluice.next_group_due(text, text, timestamptz, text[], boolean) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
