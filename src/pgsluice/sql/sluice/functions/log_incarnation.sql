create or replace function sluice.log_incarnation(queue_name text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Ticks count from 1 in each log, and snapshots mean something in one cluster only: a log that was
    -- dropped and made again gets a new id, a dump restored elsewhere another database, or another system identifier too.
    return format(
        '%s/%s/%s',
        (pg_control_system()).system_identifier,
        (select d.oid from pg_database as d where d.datname = current_database()),
        (pgq._require_log(queue_name)).queue_id
    );
end;
$$;

comment on function sluice.log_incarnation(text) is
    'What tells this event log from another of the same name, here or in another cluster.';
revoke execute on function sluice.log_incarnation(text) from public;
grant execute on function sluice.log_incarnation(text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

create or replace function sluice.log_incarnation(queue_name text, with_timeline boolean)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if not with_timeline then
        return sluice.log_incarnation(queue_name);
    end if;
    -- A server that was promoted, or restored to an earlier moment, goes on with the same ids for other transactions. Ticks tell,
    -- as they have a number and a snapshot; a snapshot alone does not. The name of a WAL file begins with the timeline.
    return format('%s/%s', sluice.log_incarnation(queue_name), left(pg_walfile_name(pg_current_wal_lsn()), 8));
end;
$$;

comment on function sluice.log_incarnation(text, boolean) is
    'The same; with the timeline also what tells this log from itself before a promotion or a restore of its server.';
revoke execute on function sluice.log_incarnation(text, boolean) from public;
grant execute on function sluice.log_incarnation(text, boolean) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
