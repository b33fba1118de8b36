-- For names that may have no row yet. Inserting a unique key waits for a transaction that has inserted it, also if that
-- deleted the row again. No row remains.
create or replace function sluice._lock_name(i_name text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    -- A longer name does not fit into the index: the caller refuses it, or knows nothing by it.
    v_name constant text := case when octet_length(i_name) > 2048 then md5(i_name) else i_name end;
begin
    insert into sluice.named_lock (name) values (v_name);
    delete from sluice.named_lock as l where l.name = v_name;
end;
$$;

comment on function sluice._lock_name(text) is
    'Lock a name until the end of the transaction; waits for a transaction that has locked it.';
revoke execute on function sluice._lock_name(text) from public;
grant execute on function sluice._lock_name(text) to pgq_admin, sluice_admin;
