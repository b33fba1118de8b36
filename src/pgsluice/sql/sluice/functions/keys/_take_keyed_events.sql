/*
 * The next events of the log, in a group with keys or for a member that does not handle all types. An event with a free key is claimed. One with a busy key waits: it is
 * stored behind the other events of its key and never visited here again, so the backlog of one key does not delay other
 * keys. A call returns as soon as it has found events; else it reads on, in growing steps up to a bound.
 */
create or replace function sluice._take_keyed_events(
    i_group sluice.share_group, i_qty integer, i_types text[], i_is_except boolean, inout claim sluice.claim, out is_news boolean
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_looked_max constant integer := 10000;
    v_batch_max constant integer := 1000;
    v_ev_id_max constant bigint := 9223372036854775807; -- of a window that is exhausted
    v_batch integer := i_qty;
    v_looked integer := 0;
    v_is_last boolean := false;
    v_events pgq.event_template[];
    v_step record;
begin
    is_news := claim.upto_ev_id <> v_ev_id_max; -- store that the window is exhausted
    loop
        if claim.upto_ev_id = v_ev_id_max then
            exit when v_is_last;
            v_step := sluice._next_window(i_group, claim, v_batch);
            claim := v_step.claim;
            v_is_last := v_step.is_last;
        end if;
        claim.from_ev_id := claim.upto_ev_id;
        execute format('select pgq.event_%s_next($1, $2, $3, $4, $5, $6, $7)', i_group.queue_id)
        using claim.after_snapshot, claim.after_seq, claim.upto_snapshot, claim.upto_seq, claim.from_ev_id, i_group.owner, v_batch
        into v_events;
        claim.upto_ev_id := case when cardinality(v_events) < v_batch then v_ev_id_max else v_events[cardinality(v_events)].ev_id end;
        continue when v_events = '{}';
        is_news := true;
        v_step := sluice._sort_events(i_group, i_qty, i_types, i_is_except, claim, v_events);
        claim := v_step.claim;
        claim.events := v_step.taken;
        claim.upto_ev_id := coalesce(v_step.upto_ev_id, claim.upto_ev_id);
        v_looked := v_looked + cardinality(v_events);
        exit when claim.events > 0 or v_looked >= v_looked_max;
        v_batch := greatest(v_batch, least(4 * v_batch::bigint, v_batch_max));
    end loop;
end;
$$;

comment on function sluice._take_keyed_events(sluice.share_group, integer, text[], boolean, sluice.claim) is
    'Take the next events of the log whose keys are free for a claim and whose types the member handles; the others before them wait.';
revoke execute on function sluice._take_keyed_events(sluice.share_group, integer, text[], boolean, sluice.claim) from public;
grant execute on function sluice._take_keyed_events(sluice.share_group, integer, text[], boolean, sluice.claim) to pgq_admin, sluice_admin;
