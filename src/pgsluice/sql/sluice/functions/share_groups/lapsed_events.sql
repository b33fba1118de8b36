/*
 * For workers: what may have killed its process is not to be started beside others. Where nothing was heard of an event after its
 * claim had arrived, sluice._redeliver says so in its error.
 *
 * Calls: sluice._require_group, sluice._claimed_events. Reads: sluice.claim.
 */
create or replace function sluice.lapsed_events(queue_name text, group_name text, claim_id bigint)
returns setof bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_group sluice.share_group := sluice._require_group(queue_name, group_name);
    v_claim sluice.claim;
begin
    select c.* into v_claim from sluice.claim as c where c.group_id = v_group.group_id and c.claim_id = lapsed_events.claim_id;
    -- Only what came again can have lapsed; in a group with keys that is not told apart.
    if v_group.key is null then
        v_claim.events := 0;
    end if;
    return query
        select e.ev_id
        from sluice._claimed_events(v_group, v_claim, null::bigint[]) as e
        where e.error like 'its lease ended%';
end;
$$;

comment on function sluice.lapsed_events(text, text, bigint) is
    'Of the events of a claim, those of which nothing was heard after their last claim, in its order: they may have killed their process.';
revoke execute on function sluice.lapsed_events(text, text, bigint) from public;
grant execute on function sluice.lapsed_events(text, text, bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
