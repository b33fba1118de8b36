create or replace function sluice.unlisten(queue_name text)
returns void
language plpgsql
strict
set search_path = pg_catalog, pg_temp
as $$
begin
    execute format('unlisten %I', sluice.notify_channel(queue_name));
end;
$$;

comment on function sluice.unlisten(text) is
    'Stop listening for a queue from the commit on.';
revoke execute on function sluice.unlisten(text) from public;
grant execute on function sluice.unlisten(text) to sluice_admin, sluice_reader, sluice_monitor;
