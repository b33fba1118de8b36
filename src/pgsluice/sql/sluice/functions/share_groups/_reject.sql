create or replace function sluice._reject(
    i_group sluice.share_group, i_claim sluice.claim, i_outcome sluice.outcome, i_ev_ids bigint[], i_reason text, i_failure jsonb
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_event sluice.redelivery;
    v_events sluice.redelivery[];
begin
    for v_event in
        select e.* from sluice._claimed_events(i_group, i_claim, i_ev_ids) as e
    loop
        v_event.attempts := v_event.attempts + 1;
        v_event.deliveries := v_event.deliveries + 1;
        v_event.error := coalesce(i_outcome.error, v_event.error);
        v_events := v_events || v_event;
    end loop;
    perform sluice._dead_letter(i_group, i_claim.claim_id, v_events, i_reason, i_failure);
    i_outcome.outcome := 'reject';
    i_outcome.ev_ids := i_ev_ids;
    i_outcome.events := coalesce(cardinality(i_ev_ids), i_outcome.events);
    i_outcome.delay := null;
    i_outcome.is_backlog := i_group.key is not null;
    perform sluice._write_outcome(i_outcome);
end;
$$;

comment on function sluice._reject(sluice.share_group, sluice.claim, sluice.outcome, bigint[], text, jsonb) is
    'Dead-letter events of a claim, all for null, and store that as their outcome.';
revoke execute on function sluice._reject(sluice.share_group, sluice.claim, sluice.outcome, bigint[], text, jsonb) from public;
grant execute on function sluice._reject(sluice.share_group, sluice.claim, sluice.outcome, bigint[], text, jsonb) to pgq_admin, sluice_admin;
