-- A retry counts as an attempt, a release as nothing at all. A lapse counts as an attempt when the consumer was heard of after the claim. When it
-- was not, the claim may never have reached it, and a lost reply is no fault of the event: then it is a delivery only.
create or replace function sluice._redeliver(i_group sluice.share_group, i_now sluice.claim, i_outcome sluice.outcome)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_claim sluice.claim;
    v_event sluice.redelivery;
    v_is_heard boolean;
begin
    select c.* into v_claim from sluice.claim as c where c.group_id = i_group.group_id and c.claim_id = i_outcome.claim_id;
    v_is_heard := i_outcome.outcome <> 'lapse' or exists (
        select
        from sluice.outcome as o
        where o.group_id = i_group.group_id and o.claim_id = i_outcome.claim_id and o.outcome <> 'lapse'
    );
    for v_event in
        select e.* from sluice._claimed_events(i_group, v_claim, i_outcome.ev_ids) as e
    loop
        if i_outcome.outcome <> 'release' then
            v_event.attempts := v_event.attempts + v_is_heard::integer;
            v_event.deliveries := v_event.deliveries + 1;
        end if;
        v_event.error := coalesce(i_outcome.error, v_event.error);
        if i_outcome.outcome = 'lapse'
            and (v_event.attempts >= i_group.max_attempts or v_event.deliveries >= i_group.max_deliveries)
        then
            perform sluice._bury(i_group, i_outcome.claim_id, v_event, 'its lease ended', v_event.error);
            continue;
        end if;
        v_event.due_at := i_outcome.outcome_at + case i_outcome.outcome
            when 'retry' then coalesce(i_outcome.delay, sluice._backoff(i_group, v_event.attempts))
            else coalesce(i_outcome.delay, '0')
        end;
        perform sluice._write_redelivery(i_now, v_event);
    end loop;
end;
$$;

comment on function sluice._redeliver(sluice.share_group, sluice.claim, sluice.outcome) is
    'Put the events of an outcome among the redeliveries; those whose lease has ended too often, among the dead.';
revoke execute on function sluice._redeliver(sluice.share_group, sluice.claim, sluice.outcome) from public;
grant execute on function sluice._redeliver(sluice.share_group, sluice.claim, sluice.outcome) to pgq_admin, sluice_admin;
