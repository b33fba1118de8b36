-- A dropped log sends no notifications, so it is not an error.
create or replace function sluice.unlisten(queue_name text, kind text default 'queue')
returns void
language plpgsql
strict
set search_path = pg_catalog, pg_temp
as $$
begin
    if kind <> 'log' or exists (select from pgq.queue as q where q.queue_name = unlisten.queue_name) then
        execute format('unlisten %I', sluice.notify_channel(queue_name, kind));
    end if;
end;
$$;

comment on function sluice.unlisten(text, text) is
    'Stop listening for a queue, an event log, or the results of a queue, from the commit on; does nothing if the log does not exist.';
revoke execute on function sluice.unlisten(text, text) from public;
grant execute on function sluice.unlisten(text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader, sluice_monitor;
