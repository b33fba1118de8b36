-- The group's position as a consumer of the log is the tick at which the window of its oldest open claim starts: the log keeps all events from there. A
-- claim is open until it is settled and a later claim has read its outcomes: until then its events may be read from the log.
--
-- It is enough to do this rarely: only rotation and monitoring read the position.
create or replace function sluice._move_group(i_group sluice.share_group, inout claim sluice.claim, out is_news boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_claims_max constant integer := 1000;
    v_claim record;
    v_claims integer := 0;
    v_is_found boolean := false;
    v_tick_id bigint;
    v_subscriber pgq.subscriber;
    v_position pgq.position_0;
    v_tick pgq.tick;
begin
    -- A bounded number per call: after a claim that was open for an hour there may be millions.
    for v_claim in
        select c.claim_id, c.after_tick,
            c.events + c.redeliveries > (
                select coalesce(sum(o.events), 0)
                from sluice.outcome as o
                where o.group_id = c.group_id
                  and o.claim_id = c.claim_id
                  and (not o.is_backlog or pg_visible_in_snapshot(o.outcome_txid, claim.backlog_snapshot))
            ) as is_open
        from sluice.claim as c
        where c.group_id = i_group.group_id
          and c.claim_id >= claim.open_claim
          and c.claim_id < claim.claim_id
        order by c.claim_id
        limit v_claims_max
    loop
        claim.open_claim := v_claim.claim_id;
        v_tick_id := v_claim.after_tick;
        v_claims := v_claims + 1;
        v_is_found := v_claim.is_open;
        exit when v_is_found;
    end loop;
    if not v_is_found and v_claims < v_claims_max then
        claim.open_claim := claim.claim_id;
    end if;
    -- With keys, the events of claims are stored in sluice.key_event: only the window needs the log.
    if i_group.key is not null or not v_is_found and v_claims < v_claims_max then
        v_tick_id := case
            when claim.upto_ev_id = 9223372036854775807 and (claim.events = 0 or i_group.key is not null) then claim.upto_tick
            else claim.after_tick
        end;
    end if;
    -- If there may be more, the next claim continues.
    claim.moved_at := case when v_claims < v_claims_max or v_is_found then claim.claimed_at else '-infinity' end;

    select s.* into v_subscriber from pgq.subscriber as s where s.sub_key = i_group.sub_key for no key update;
    v_position := pgq._position(v_subscriber.sub_key, v_subscriber.sub_ledger);
    -- Null if the position was removed by hand: it follows from the claims.
    is_news := v_tick_id > coalesce(v_position.pos_last_tick, -1);
    if is_news then
        v_tick := pgq._find_tick(i_group.queue_id, v_tick_id, true);
        perform pgq._move(v_subscriber.sub_ledger, pgq._at_tick(v_position, v_tick));
    end if;
end;
$$;

comment on function sluice._move_group(sluice.share_group, sluice.claim) is
    'Move a share group, as a consumer of its log, up to its oldest open claim.';
revoke execute on function sluice._move_group(sluice.share_group, sluice.claim) from public;
grant execute on function sluice._move_group(sluice.share_group, sluice.claim) to pgq_admin, sluice_admin;
