create or replace function sluice.list_retentions()
returns table (queue_name text, archive_retention interval)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select m.queue_name, r.archive_retention
    from pgmq.meta as m
    left join sluice.retention as r on r.queue_name = m.queue_name
    order by m.queue_name;
$$;

comment on function sluice.list_retentions() is
    'Return every work queue by name with the retention of its archive; null: unlimited.';
revoke execute on function sluice.list_retentions() from public;
grant execute on function sluice.list_retentions() to sluice_admin, sluice_reader, sluice_monitor;
