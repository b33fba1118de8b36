create or replace function sluice.list_exports()
returns table (
    queue_name text,
    export_name text,
    lake text,
    created_at timestamptz,
    verified_at timestamptz,
    kept bigint
)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select e.queue_name, e.export_name, e.lake, e.created_at, e.verified_at,
        coalesce(
            (
                select sum(upper(run.msg_ids) - lower(run.msg_ids))
                from sluice.exported_page as p
                cross join unnest(p.msg_ids) as run (msg_ids)
                where p.export_id = e.export_id
            ),
            0
        )::bigint
    from sluice.export as e
    order by e.queue_name, e.export_name;
$$;

comment on function sluice.list_exports() is
    'Return every export of an archive with the time of its last verification and the number of verified messages still in the archive.';
revoke execute on function sluice.list_exports() from public;
grant execute on function sluice.list_exports() to sluice_admin, sluice_reader, sluice_monitor;
