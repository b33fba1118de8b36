-- Acknowledgements do not take the group's lock, because they are part of their callers' transactions, which may be long. The next claim reads them from the
-- acknowledgement backlog: the outcomes that its snapshot sees and that of the last claim did not, the same condition as for a batch.
create or replace function sluice._read_outcomes(i_group sluice.share_group, inout claim sluice.claim, out is_news boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_snapshot pg_snapshot := pgq._others_snapshot();
    v_mail sluice.outcome;
begin
    is_news := false;
    for v_mail in
        select m.*
        from (
            select o.*
            from sluice.outcome as o
            where o.group_id = i_group.group_id
              and o.is_backlog
              and o.outcome_txid >= pg_snapshot_xmax(claim.backlog_snapshot)
              and o.outcome_txid < pg_snapshot_xmax(v_snapshot)
              and pg_visible_in_snapshot(o.outcome_txid, v_snapshot)
            union all
            select o.*
            from sluice.outcome as o
            where o.group_id = i_group.group_id
              and o.is_backlog
              and o.outcome_txid = any (array(
                  select late.txid
                  from pg_snapshot_xip(claim.backlog_snapshot) as late (txid)
                  where pg_visible_in_snapshot(late.txid, v_snapshot)
              ))
        ) as m
        order by m.claim_id, m.outcome_no
    loop
        is_news := true;
        if v_mail.outcome in ('retry', 'release') then
            perform sluice._redeliver(i_group, claim, v_mail);
        end if;
        if i_group.key is not null then
            perform sluice._end_turns(i_group, claim, v_mail.claim_id, v_mail.ev_ids, v_mail.outcome_no);
        end if;
    end loop;
    claim.backlog_snapshot := v_snapshot;
end;
$$;

comment on function sluice._read_outcomes(sluice.share_group, sluice.claim) is
    'Read the acknowledgement backlog of a share group, and schedule the redeliveries of retried and released events.';
revoke execute on function sluice._read_outcomes(sluice.share_group, sluice.claim) from public;
grant execute on function sluice._read_outcomes(sluice.share_group, sluice.claim) to pgq_admin, sluice_admin;
