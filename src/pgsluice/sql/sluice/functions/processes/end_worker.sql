-- Security definer: see sluice.report_worker. Nothing is deleted, because a deleted row is a dead row.
create or replace function sluice.end_worker(worker_id text)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '500ms'
as $$
    insert into sluice.process_report (process_id, reported_at, ended_at)
    select p.process_id, clock_timestamp(), clock_timestamp()
    from sluice.process as p
    where p.process_id = end_worker.worker_id and p.queue_id is null;
$$;

comment on function sluice.end_worker(text) is
    'Unregister a worker process at its graceful stop; sluice.list_workers no longer lists it.';
revoke execute on function sluice.end_worker(text) from public;
grant execute on function sluice.end_worker(text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
