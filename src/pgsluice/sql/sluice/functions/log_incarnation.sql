create or replace function sluice.log_incarnation(queue_name text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Ticks count from 1 in each log, and snapshots mean something in one cluster only: a log that was
    -- dropped and made again gets a new id, a dump restored elsewhere a new system identifier.
    return format('%s/%s', (pg_control_system()).system_identifier, (pgq._require_log(queue_name)).queue_id);
end;
$$;

comment on function sluice.log_incarnation(text) is
    'What tells this event log from another of the same name, here or in another cluster.';
revoke execute on function sluice.log_incarnation(text) from public;
grant execute on function sluice.log_incarnation(text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
