-- pg_dump takes its snapshot first and locks the tables after it, and TRUNCATE does not look at snapshots. A table that is emptied
-- between the two is empty in the dump, and what was copied out of it before is not in the dump either. So nothing is emptied
-- while a session of pg_dump is there. Once it has its locks nothing could be.
--
-- Its sessions are recognised by the name that it gives itself. The view is cached within a transaction, hence the reset.
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
    'The sessions of pg_dump in this database; null when there are none.';
revoke execute on function pgq._dumped_by() from public;
grant execute on function pgq._dumped_by() to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
