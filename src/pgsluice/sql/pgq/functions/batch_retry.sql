create or replace function pgq.batch_retry(i_batch_id bigint, i_retry_seconds integer)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgq.open_batch as b where b.batch_id = i_batch_id;
    if not found then
        raise exception using
            errcode = 'PQ003',
            message = format('batch_retry: batch %s not found', coalesce(i_batch_id::text, '<NULL>')),
            hint = 'open a batch with pgq.next_batch(); a finished one cannot be read again';
    end if;
    return (pgq._queue_retry(i_batch_id, null::bigint[], now() + make_interval(secs => i_retry_seconds))).queued;
end;
$$;

comment on function pgq.batch_retry(bigint, integer) is
    'Retry all events of an open batch after i_retry_seconds; returns how many were not queued before.';
revoke execute on function pgq.batch_retry(bigint, integer) from public;
grant execute on function pgq.batch_retry(bigint, integer) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
