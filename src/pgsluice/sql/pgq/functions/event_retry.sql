create or replace function pgq.event_retry(x_batch_id bigint, x_event_id bigint, x_retry_time timestamptz)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_result record;
begin
    v_result := pgq._queue_retry(x_batch_id, array[x_event_id], x_retry_time);
    if cardinality(v_result.missing) > 0 then
        raise exception using
            errcode = '22023',
            message = 'event not found',
            detail = format('Batch %s has no event %s.', x_batch_id, x_event_id),
            hint = 'pass the ev_id of an event that pgq.get_batch_events() returns for this batch';
    end if;
    return v_result.queued;
end;
$$;

comment on function pgq.event_retry(bigint, bigint, timestamptz) is
    'Retry an event of an open batch at a given time; returns 1, or 0 if it was queued before.';
revoke execute on function pgq.event_retry(bigint, bigint, timestamptz) from public;
grant execute on function pgq.event_retry(bigint, bigint, timestamptz) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

create or replace function pgq.event_retry(x_batch_id bigint, x_event_id bigint, x_retry_seconds integer)
returns integer
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    select pgq.event_retry(x_batch_id, x_event_id, now() + make_interval(secs => x_retry_seconds));
$$;

comment on function pgq.event_retry(bigint, bigint, integer) is
    'Retry an event of an open batch after x_retry_seconds; returns 1, or 0 if it was queued before.';
revoke execute on function pgq.event_retry(bigint, bigint, integer) from public;
grant execute on function pgq.event_retry(bigint, bigint, integer) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
