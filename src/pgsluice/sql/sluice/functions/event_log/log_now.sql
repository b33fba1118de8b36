create or replace function sluice.log_now()
returns pg_snapshot
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_snapshot pg_snapshot := pgq._others_snapshot();
begin
    perform sluice._flush_offset();
    return v_snapshot;
end;
$$;

comment on function sluice.log_now() is
    'Return a snapshot of everything committed now, as an offset to store elsewhere: it survives a crash once the calling transaction has committed. Takes a transaction id and waits for a flush.';
revoke execute on function sluice.log_now() from public;
grant execute on function sluice.log_now() to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
