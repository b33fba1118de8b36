-- A log may have an empty name; these tasks always belong to a log.
create or replace function sluice.list_failures()
returns table (
    task text, queue_name text, group_name text, failed_since timestamptz, failed_at timestamptz, error text
)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select f.task,
        case when f.queue_name <> '' or f.task in ('tick', 'retry', 'rotate', 'groups', 'repair') then f.queue_name end,
        nullif(f.group_name, ''),
        f.failed_since, f.failed_at, f.error
    from sluice.failure as f
    order by f.task, f.queue_name, f.group_name;
$$;

comment on function sluice.list_failures() is
    'List maintenance steps whose last run failed: the task, the queue or log, the share group, the time of the first failure, and the error.';
revoke execute on function sluice.list_failures() from public;
grant execute on function sluice.list_failures() to pgq_admin, sluice_admin;
