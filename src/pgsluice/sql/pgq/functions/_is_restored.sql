-- Security definer: consumers of a log need no rights on pgq.origin.
create or replace function pgq._is_restored(i_queue_id integer)
returns boolean
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return (select count(*) from pgq.origin as o where o.queue_id = i_queue_id and o.made_by = o.xmin) <> 2;
end;
$$;

comment on function pgq._is_restored(integer) is
    'True if a log (0: the retry entries of all logs) was restored from a dump and sluice.after_restore() was not called since.';
revoke execute on function pgq._is_restored(integer) from public;
grant execute on function pgq._is_restored(integer) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
