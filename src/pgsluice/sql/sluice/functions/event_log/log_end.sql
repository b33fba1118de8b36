create or replace function sluice.log_end(
    queue_name text, from_tick bigint, max_events bigint, last_tick bigint
)
returns bigint
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_from pgq.tick;
    v_tick_id bigint;
begin
    v_queue_id := (pgq._require_log(queue_name)).queue_id;
    if from_tick is null then
        return (pgq._last_tick(v_queue_id)).tick_id;
    end if;

    v_from := sluice._standing_tick(v_queue_id, from_tick);
    if v_from.tick_id is null then
        raise exception using
            errcode = 'PQ004',
            message = format('event log %L no longer keeps tick %s', queue_name, from_tick),
            detail = 'The events after it may be gone.',
            hint = 'set failOnDataLoss to false to go on from the oldest tick that is kept';
    end if;

    -- At least one tick: the events between two ticks cannot be divided.
    execute format(
        'select coalesce(max(t.tick_id) filter (where t.tick_event_seq <= $1), min(t.tick_id), $2)
         from pgq.%I as t
         where t.tick_id > $2
           and (t.tick_id <= $3 or $3 is null)',
        format('tick_%s', v_queue_id)
    )
    using v_from.tick_event_seq + max_events, from_tick, last_tick
    into v_tick_id;
    return v_tick_id;
end;
$$;

comment on function sluice.log_end(text, bigint, bigint, bigint) is
    'Return the last tick within about max_events of from_tick and not after last_tick; the newest if from_tick is null.';
revoke execute on function sluice.log_end(text, bigint, bigint, bigint) from public;
grant execute on function sluice.log_end(text, bigint, bigint, bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
