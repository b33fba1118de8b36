/*
 * New events are read from a window between two snapshots, so an event that is committed late is in a later window and never skipped. Within the window they
 * are read in the order of ev_id, and each claim stores its last one. The next window starts at the end of the last one. It ends at a tick that is far enough
 * ahead to hold many events; if no tick covers the events, it ends at a new snapshot, so claims do not wait for a ticker.
 */
create or replace function sluice._next_window(i_group sluice.share_group, inout claim sluice.claim, i_qty integer, out is_last boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_window_events constant integer := 2000; -- minimum of a window, if the log has enough
    v_tick pgq.tick;
begin
    execute format('select t.* from pgq.%I($1, $2, $3) as t', format('tick_%s_window', i_group.queue_id))
    using claim.upto_tick, claim.upto_snapshot, claim.upto_seq + greatest(v_window_events, i_qty)
    into v_tick;
    is_last := v_tick.tick_snapshot is null;
    claim.after_tick := claim.upto_tick;
    claim.after_snapshot := claim.upto_snapshot;
    claim.after_seq := claim.upto_seq;
    if is_last then
        -- The tick is read before the snapshot, so that the snapshot covers it; the sequence after it, so that it includes the events that the snapshot sees.
        claim.upto_tick := greatest(claim.upto_tick, v_tick.tick_id);
        claim.upto_snapshot := pgq._others_snapshot();
        claim.upto_seq := coalesce(pg_sequence_last_value(format('pgq.event_%s_id_seq', i_group.queue_id)::regclass), 0);
    else
        claim.upto_tick := v_tick.tick_id;
        claim.upto_snapshot := v_tick.tick_snapshot;
        claim.upto_seq := v_tick.tick_event_seq;
    end if;
    claim.upto_ev_id := null;
end;
$$;

comment on function sluice._next_window(sluice.share_group, sluice.claim, integer) is
    'Open the next window of a share group, up to a tick or, if there is none, up to now; is_last is true for the latter.';
revoke execute on function sluice._next_window(sluice.share_group, sluice.claim, integer) from public;
grant execute on function sluice._next_window(sluice.share_group, sluice.claim, integer) to pgq_admin, sluice_admin;
