create or replace function sluice.drop_export(queue_name text, export_name text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_name text := sluice._registered_name(queue_name);
begin
    delete from sluice.export as e where e.queue_name = v_queue_name and e.export_name = drop_export.export_name;
    return found;
end;
$$;

comment on function sluice.drop_export(text, text) is
    'Stop keeping archived messages for an export; false if it does not exist. The lake is unchanged.';
revoke execute on function sluice.drop_export(text, text) from public;
grant execute on function sluice.drop_export(text, text) to sluice_admin;
