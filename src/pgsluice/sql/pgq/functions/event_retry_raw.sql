create or replace function pgq.event_retry_raw(
    x_queue text, x_consumer text, x_retry_after timestamptz,
    x_ev_id bigint, x_ev_time timestamptz, x_ev_retry integer, x_ev_type text, x_ev_data text,
    x_ev_extra1 text, x_ev_extra2 text, x_ev_extra3 text, x_ev_extra4 text
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_subscriber record;
    v_ev_id bigint := x_ev_id;
begin
    -- Locked, so that two sessions cannot both find that the event is not in the queue.
    select s.sub_id, s.sub_queue, q.queue_event_seq
    into v_subscriber
    from pgq.subscriber as s
    join pgq.queue as q on q.queue_id = s.sub_queue
    join pgq.consumer as c on c.co_id = s.sub_consumer
    where q.queue_name = x_queue
      and c.co_name = x_consumer
    for no key update of s;
    if not found then
        raise exception using
            errcode = 'PQ002',
            table = coalesce(x_queue, 'NULL'),
            constraint = coalesce(x_consumer, 'NULL'),
            message = 'consumer not registered',
            detail = format('There is no consumer %L of event log %L.', x_consumer, x_queue),
            hint = format('register it with pgq.register_consumer(%L, %L)', x_queue, x_consumer);
    end if;
    if x_retry_after is null then
        raise exception using
            errcode = '22004',
            message = 'retry time is null',
            hint = 'pass the time or the delay after which the event is delivered again';
    end if;

    if v_ev_id is null then
        v_ev_id := nextval(v_subscriber.queue_event_seq::regclass);
    else
        perform from pgq.retry_queue as r where r.ev_owner = v_subscriber.sub_id and r.ev_id = x_ev_id;
        if found then
            raise exception using
                errcode = 'unique_violation',
                message = format('event %s is queued for a retry already', x_ev_id),
                detail = format('It is queued for consumer %L of event log %L.', x_consumer, x_queue),
                hint = 'pgq.retry_queue lists the queued events';
        end if;
    end if;
    execute format(
        'insert into pgq.%I (
            ev_retry_after, ev_queue, ev_id, ev_time, ev_owner, ev_retry,
            ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
         )
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)',
        format('retry_entry_%s', (pgq._last_retry_pass()).pass_table)
    )
    using x_retry_after, v_subscriber.sub_queue, v_ev_id, coalesce(x_ev_time, now()), v_subscriber.sub_id, x_ev_retry,
        x_ev_type, x_ev_data, x_ev_extra1, x_ev_extra2, x_ev_extra3, x_ev_extra4;
    return v_ev_id;
end;
$$;

comment on function pgq.event_retry_raw(text, text, timestamptz, bigint, timestamptz, integer, text, text, text, text, text, text) is
    'Put an event with all its fields into the retry queue of one consumer; returns its ev_id.';
revoke execute on function pgq.event_retry_raw(text, text, timestamptz, bigint, timestamptz, integer, text, text, text, text, text, text) from public;
grant execute on function pgq.event_retry_raw(text, text, timestamptz, bigint, timestamptz, integer, text, text, text, text, text, text) to pgq_admin, sluice_admin;
