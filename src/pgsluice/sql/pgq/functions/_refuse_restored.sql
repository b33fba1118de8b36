create or replace function pgq._refuse_restored(i_queue_id integer)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if pgq._is_restored(i_queue_id) then
        raise exception using
            errcode = 'PQ004',
            message = format(
                'event log %L was restored from a dump and is not repaired yet',
                (select q.queue_name from pgq.queue as q where q.queue_id = i_queue_id)
            ),
            detail = 'Its ticks, positions and events have the transaction ids of the dumped server.',
            hint = 'repair it with: select * from sluice.after_restore()';
    end if;
end;
$$;

comment on function pgq._refuse_restored(integer) is
    'Raise an error if a log was restored from a dump and sluice.after_restore() was not called since.';
revoke execute on function pgq._refuse_restored(integer) from public;
grant execute on function pgq._refuse_restored(integer) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
