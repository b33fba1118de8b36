create or replace function sluice.list_segments(
    log_name text,
    out segment integer, out is_current boolean, out event_bytes bigint, out first_tick bigint, out last_tick bigint,
    out consumers text[], out reason text
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue record;
    v_use record;
begin
    v_queue := pgq._require_log(log_name);
    for segment in select s.number from pgq._segments(v_queue.queue_id) as s (number)
    loop
        is_current := segment = v_queue.queue_cur_table;
        consumers := null;
        if not pgq._lock_segment(v_queue.queue_id, segment, 'access share', 0) then
            event_bytes := null;
            first_tick := null;
            last_tick := null;
            reason := pgq._locked_by(v_queue.queue_id, segment);
            return next;
            continue;
        end if;
        v_use := pgq._segment_span(v_queue.queue_id, segment);
        first_tick := v_use.first_tick;
        last_tick := v_use.last_tick;
        event_bytes := pg_total_relation_size(format('pgq.event_%s_%s', v_queue.queue_id, segment)::regclass);
        if v_use.is_empty then
            reason := case when is_current then 'events go here' end;
        else
            v_use := pgq._segment_use(v_queue.queue_id, segment);
            consumers := v_use.consumers;
            reason := case
                when is_current then 'events go here'
                else coalesce(v_use.reason, pgq._locked_by(v_queue.queue_id, segment))
            end;
        end if;
        return next;
    end loop;
end;
$$;

comment on function sluice.list_segments(text) is
    'Return the segments of an event log: bytes, ticks, the consumers that need each, and why it cannot be truncated; no reason: it can be, or is empty.';
revoke execute on function sluice.list_segments(text) from public;
grant execute on function sluice.list_segments(text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
