-- Security definer: see sluice.report_worker. Nothing is deleted, because a deleted row is a dead row.
create or replace function sluice.end_worker(worker_id text)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '500ms'
as $$
    insert into sluice.worker_report (worker_id, reported_at, running, counts, ended_at)
    select w.worker_id, clock_timestamp(), '[]', '{}', clock_timestamp()
    from sluice.worker as w
    where w.worker_id = end_worker.worker_id;
$$;

comment on function sluice.end_worker(text) is
    'Unregister a worker process at its graceful stop; sluice.list_workers no longer lists it.';
revoke execute on function sluice.end_worker(text) from public;
grant execute on function sluice.end_worker(text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
