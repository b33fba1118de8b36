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
    v_event_seq bigint;
    v_tick_id bigint;
begin
    select q.queue_id
    into v_queue_id
    from pgq.queue as q
    where q.queue_name = log_end.queue_name;
    if not found then
        raise exception using
            errcode = 'PQ001',
            message = format('event log %L does not exist', queue_name),
            hint = format('create it with pgq.create_queue(%L)', queue_name);
    end if;
    if from_tick is null then
        select max(t.tick_id) into v_tick_id from pgq.tick as t where t.tick_queue = v_queue_id;
        return v_tick_id;
    end if;

    select t.tick_event_seq
    into v_event_seq
    from pgq.tick as t
    where t.tick_queue = v_queue_id
      and t.tick_id = from_tick;
    if not found then
        raise exception using
            errcode = 'PQ004',
            message = format('event log %L no longer keeps tick %s', queue_name, from_tick),
            detail = 'The events after it may be gone.',
            hint = 'set failOnDataLoss to false to go on from the oldest tick that is kept';
    end if;

    -- One tick at the least: what lies between two ticks cannot be divided.
    select coalesce(
        max(t.tick_id) filter (where t.tick_event_seq <= v_event_seq + max_events),
        min(t.tick_id),
        from_tick
    )
    into v_tick_id
    from pgq.tick as t
    where t.tick_queue = v_queue_id
      and t.tick_id > from_tick
      and (t.tick_id <= last_tick or last_tick is null);
    return v_tick_id;
end;
$$;

comment on function sluice.log_end(text, bigint, bigint, bigint) is
    'The last tick within about max_events of from_tick and not after last_tick; the newest when from_tick is null.';
revoke execute on function sluice.log_end(text, bigint, bigint, bigint) from public;
grant execute on function sluice.log_end(text, bigint, bigint, bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
