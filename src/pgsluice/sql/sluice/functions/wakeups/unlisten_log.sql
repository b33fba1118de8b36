-- Of a log that was dropped nothing is heard any more: no reason to fail whoever cleans up after it.
--
-- Calls: sluice.log_channel.
create or replace function sluice.unlisten_log(queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from pgq.queue as q where q.queue_name = unlisten_log.queue_name) then
        execute format('unlisten %I', sluice.log_channel(queue_name));
    end if;
end;
$$;

comment on function sluice.unlisten_log(text) is
    'From the commit on, no longer hear of an event log''s ticks; nothing when there is no such log.';
revoke execute on function sluice.unlisten_log(text) from public;
grant execute on function sluice.unlisten_log(text) to pgq_admin, pgq_reader, sluice_admin, sluice_monitor, sluice_reader;
