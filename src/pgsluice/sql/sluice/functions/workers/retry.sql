-- Security definer: a reader may retry its events, but may not write to the retry queue.
create or replace function sluice.retry(batch_id bigint, ev_ids bigint[], delay interval)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_result record;
begin
    if ev_ids is null or array_position(ev_ids, null) is not null then
        raise exception using
            errcode = '22004',
            message = 'ev_ids is null or has a null in it',
            hint = 'pass the ids of the events, or call pgq.batch_retry() for the whole batch';
    end if;
    v_result := pgq._queue_retry(batch_id, ev_ids, now() + delay);
    if cardinality(v_result.missing) > 0 then
        raise exception using
            errcode = '22023',
            message = format('batch %s does not have all of these events', batch_id),
            detail = format(
                'It has no events %s%s.',
                array_to_string(v_result.missing[:20], ', '),
                case when cardinality(v_result.missing) > 20 then format(' and %s more', cardinality(v_result.missing) - 20) end
            ),
            hint = 'pass ids of events that pgq.get_batch_events() returns for this batch; nothing was queued';
    end if;
    return v_result.queued;
end;
$$;

comment on function sluice.retry(bigint, bigint[], interval) is
    'Retry events of an open batch for this consumer after a delay; returns the number of events that were not queued before.';
revoke execute on function sluice.retry(bigint, bigint[], interval) from public;
grant execute on function sluice.retry(bigint, bigint[], interval) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
