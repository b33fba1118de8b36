-- lag_events counts numbers, those of rolled back events too: exact would be to read them all. The oldest event that nobody has claimed says how far that is in
-- time.
create or replace function sluice._group_state(
    i_group sluice.share_group, i_queue_name text,
    out lag_events bigint, out lag_s double precision, out leased bigint, out retrying bigint, out dead bigint
)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_claim sluice.claim;
    v_oldest timestamptz;
begin
    select c.* into v_claim from sluice.claim as c where c.group_id = i_group.group_id order by c.claim_id desc limit 1;
    lag_events := greatest(0, pgq._event_seq(i_group.queue_id) - case
        when v_claim.upto_ev_id = 9223372036854775807 then v_claim.upto_seq
        else greatest(v_claim.upto_ev_id, v_claim.after_seq)
    end);
    -- The rest of its window, and then what came after it.
    for v_window in 1 .. 2
    loop
        execute format('select e.ev_time from unnest(pgq.%I($1, $2, $3, $4, $5, $6, 1)) as e limit 1', format('event_%s_next', i_group.queue_id))
        using v_claim.after_snapshot, v_claim.after_seq, v_claim.upto_snapshot, v_claim.upto_seq, v_claim.upto_ev_id, i_group.owner
        into v_oldest;
        exit when v_oldest is not null;
        v_claim.after_snapshot := v_claim.upto_snapshot;
        v_claim.after_seq := v_claim.upto_seq;
        v_claim.upto_snapshot := pg_current_snapshot();
        v_claim.upto_seq := pgq._event_seq(i_group.queue_id);
        v_claim.upto_ev_id := null;
    end loop;
    lag_s := coalesce(greatest(0, extract(epoch from clock_timestamp() - v_oldest)), 0);
    if v_oldest is null then
        lag_events := 0;
    end if;

    select coalesce(sum(c.events - c.settled), 0) into leased from sluice.list_claims(i_queue_name, i_group.group_name) as c;
    select count(*) into retrying
    from sluice.redelivery as r
    where r.group_id = i_group.group_id
      and (r.due_at, r.redelivery_id) > (v_claim.upto_due, v_claim.upto_redelivery)
      and r.ev_id is not null;
    -- And those of which the next claim will read.
    retrying := retrying + (
        select coalesce(sum(o.events), 0)
        from sluice.outcome as o
        where o.group_id = i_group.group_id
          and o.is_mail
          and o.outcome in ('retry', 'release')
          and not pg_visible_in_snapshot(o.outcome_txid, v_claim.mail_snapshot)
    );
    if i_group.key is not null then
        -- Claimed by nobody, and met already: they wait for their key.
        select lag_events + coalesce(sum(t.waiting), 0), retrying + coalesce(sum(cardinality(t.returned)), 0)
        into lag_events, retrying
        from sluice._waiting_turns(i_group.group_id) as t;
    end if;
    select count(*) into dead
    from sluice.dead_event as d
    where d.queue_name = i_queue_name and d.group_name = i_group.group_name;
end;
$$;

comment on function sluice._group_state(sluice.share_group, text) is
    'How far a share group is behind, in numbers of events and in seconds, and how many events are leased, to come again, and dead.';
revoke execute on function sluice._group_state(sluice.share_group, text) from public;
grant execute on function sluice._group_state(sluice.share_group, text) to pgq_admin, sluice_admin;
