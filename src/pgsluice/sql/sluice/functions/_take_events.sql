/*
 * The next events of the log. They are taken from a window between two snapshots, so that an event that is committed late is in a later window and
 * never skipped; within the window by number, and the claim notes how far. When a window is exhausted, the next one begins where it ended. It ends at a tick,
 * far enough off to hold many events; or, when no tick covers what is there, at a snapshot taken on the spot: nobody waits for a ticker.
 */
create or replace function sluice._take_events(
    i_group sluice.share_group, i_qty integer, inout claim sluice.claim, out events pgq.event_template[]
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_ev_id_max constant bigint := 9223372036854775807; -- of a window that is exhausted
    v_window_events constant integer := 2000; -- that a window has at least, if there are so many
    v_tick pgq.tick;
    v_is_last boolean := false;
begin
    loop
        if claim.upto_ev_id = v_ev_id_max then
            execute format('select t.* from pgq.%I($1, $2, $3) as t', format('tick_%s_window', i_group.queue_id))
            using claim.upto_tick, claim.upto_snapshot, claim.upto_seq + greatest(v_window_events, i_qty)
            into v_tick;
            claim.after_tick := claim.upto_tick;
            claim.after_snapshot := claim.upto_snapshot;
            claim.after_seq := claim.upto_seq;
            if v_tick.tick_id is not null then
                claim.upto_tick := v_tick.tick_id;
                claim.upto_snapshot := v_tick.tick_snapshot;
                claim.upto_seq := v_tick.tick_event_seq;
            else
                -- The tick is read before the snapshot, which then covers it; the number after it, so that it counts what the snapshot sees.
                claim.upto_tick := greatest(claim.upto_tick, (pgq._last_tick(i_group.queue_id)).tick_id);
                claim.upto_snapshot := pgq._others_snapshot();
                claim.upto_seq := coalesce(pg_sequence_last_value(format('pgq.event_%s_id_seq', i_group.queue_id)::regclass), 0);
                v_is_last := true;
            end if;
            claim.upto_ev_id := -v_ev_id_max;
        end if;

        claim.from_ev_id := claim.upto_ev_id;
        execute format('select pgq.event_%s_next($1, $2, $3, $4, $5, $6, $7)', i_group.queue_id)
        using claim.after_snapshot, claim.after_seq, claim.upto_snapshot, claim.upto_seq, claim.from_ev_id, i_group.owner, i_qty
        into events;
        claim.events := cardinality(events);
        claim.upto_ev_id := case when claim.events < i_qty then v_ev_id_max else events[claim.events].ev_id end;
        exit when v_is_last or claim.events > 0;
    end loop;
end;
$$;

comment on function sluice._take_events(sluice.share_group, integer, sluice.claim) is
    'Take the next events of the log for a claim.';
revoke execute on function sluice._take_events(sluice.share_group, integer, sluice.claim) from public;
grant execute on function sluice._take_events(sluice.share_group, integer, sluice.claim) to pgq_admin, sluice_admin;
