/*
 * A position in the order of sluice.browse_events: that of an event, or that after which the events of the last tick at or
 * before a time come. Ticks are found by bisection, as they have no index on their time.
 *
 * Calls: sluice._find_event, pgq._last_tick, pgq._tick_after.
 */
create or replace function sluice.event_position(
    log_name text, of_ev_id bigint default null, moment timestamptz default null, out ev_txid xid8, out ev_id bigint
)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id constant integer := (pgq._require_log(log_name)).queue_id;
    v_low bigint := 0;
    v_high bigint;
    v_tick pgq.tick;
    v_found pgq.tick;
begin
    if (of_ev_id is null) = (moment is null) then
        raise exception using
            errcode = '22023',
            message = 'event_position needs either of_ev_id or moment';
    end if;
    if of_ev_id is not null then
        select f.ev_txid, case when f.ev_txid is not null then of_ev_id end
        into ev_txid, ev_id
        from sluice._find_event(v_queue_id, of_ev_id) as f;
        return;
    end if;
    -- Each tick above v_low up to v_high is unknown, later ones are after the time, and v_found is the last one known before it.
    v_high := (pgq._last_tick(v_queue_id)).tick_id;
    while v_low < v_high
    loop
        v_tick := pgq._tick_after(v_queue_id, v_low + (v_high - v_low) / 2);
        if v_tick.tick_id is null or v_tick.tick_id > v_high or v_tick.tick_time > moment then
            v_high := v_low + (v_high - v_low) / 2;
        else
            v_found := v_tick;
            v_low := v_tick.tick_id;
        end if;
    end loop;
    ev_txid := coalesce(pg_snapshot_xmax(v_found.tick_snapshot), '0'::xid8);
    ev_id := 0;
end;
$$;

comment on function sluice.event_position(text, bigint, timestamptz) is
    'Return the position of an event for sluice.browse_events, null if the log does not have it; or that from which the transactions after the last tick at or before a time follow.';
revoke execute on function sluice.event_position(text, bigint, timestamptz) from public;
grant execute on function sluice.event_position(text, bigint, timestamptz) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
