/*
 * The next events of the log, in a group with keys. An event whose key is free is claimed. One whose key is not waits: it is written behind the
 * others of its key and never met here again, so however many wait for one key, the events of others are reached. A call that has found
 * something returns it; one that has not looks further, at more and more at a time, up to a bound.
 */
create or replace function sluice._take_keyed_events(
    i_group sluice.share_group, i_qty integer, inout claim sluice.claim, out is_news boolean
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_looked_max constant integer := 10000;
    v_batch_max constant integer := 1000;
    v_batch integer := i_qty;
    v_looked integer := 0;
    v_step record;
    v_sorted record;
begin
    is_news := false;
    loop
        v_step := sluice._take_events(i_group, v_batch, claim);
        claim := v_step.claim;
        claim.events := 0;
        exit when cardinality(v_step.events) = 0;
        is_news := true;
        v_sorted := sluice._sort_events(i_group, i_qty, claim, v_step.events);
        claim.events := v_sorted.taken;
        claim.upto_ev_id := coalesce(v_sorted.upto_ev_id, claim.upto_ev_id);
        v_looked := v_looked + cardinality(v_step.events);
        exit when claim.events > 0 or v_looked >= v_looked_max;
        v_batch := greatest(v_batch, least(4 * v_batch, v_batch_max));
    end loop;
end;
$$;

comment on function sluice._take_keyed_events(sluice.share_group, integer, sluice.claim) is
    'Take the next events of the log whose keys are free for a claim, and let the others before them wait.';
revoke execute on function sluice._take_keyed_events(sluice.share_group, integer, sluice.claim) from public;
grant execute on function sluice._take_keyed_events(sluice.share_group, integer, sluice.claim) to pgq_admin, sluice_admin;
