-- An existing sink is locked by its row: locking names often would leave dead rows.
create or replace function sluice._lock_sink(i_sink_id text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from sluice.sink_commit as c where c.key = i_sink_id for update;
    if not found then
        perform sluice._lock_name(format('sluice.sink %s', i_sink_id));
        perform from sluice.sink_commit as c where c.key = i_sink_id for update;
    end if;
end;
$$;

comment on function sluice._lock_sink(text) is
    'Lock a sink until the end of the transaction; waits for a transaction that has locked it.';
revoke execute on function sluice._lock_sink(text) from public;
grant execute on function sluice._lock_sink(text) to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
