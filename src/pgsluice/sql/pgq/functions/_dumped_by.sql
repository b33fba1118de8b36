-- pg_dump takes its snapshot first and locks the tables after it, and TRUNCATE ignores snapshots. A table truncated in
-- between is empty in the dump, and rows copied elsewhere before the truncation are missing from it too. So nothing is
-- truncated while a session of pg_dump exists: pgq._lock_tables looks for one, and pgq._refuse_if_dumped again at the
-- commit. (Once pg_dump has its locks, TRUNCATE could not run anyway.)
--
-- Its sessions are recognised by their application_name. The view is cached within a transaction, hence the reset.
create or replace function pgq._dumped_by()
returns integer[]
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    select pg_stat_clear_snapshot();
    select array_agg(a.pid order by a.pid)
    from pg_stat_activity as a
    where a.datname = current_database()
      and a.application_name = 'pg_dump'
      and a.pid <> pg_backend_pid();
$$;

comment on function pgq._dumped_by() is
    'Return the pids of pg_dump in this database; null if there are none.';
revoke execute on function pgq._dumped_by() from public;
grant execute on function pgq._dumped_by() to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
