-- Error texts may quote rows.
create or replace function sluice._explain_failures(i_queue_name text, i_group_name text, i_may_read boolean)
returns table (at timestamptz, cause text, detail jsonb)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select f.failed_since, 'maintenance failure',
        jsonb_build_object(
            'task', f.task, 'queue_name', f.queue_name, 'group_name', nullif(f.group_name, ''), 'error', case when i_may_read then f.error end
        )
    from sluice.failure as f
    where f.queue_name = i_queue_name
      and (i_group_name is null or f.group_name in ('', i_group_name))
    order by f.task, f.group_name;
$$;

comment on function sluice._explain_failures(text, text, boolean) is
    'Return the maintenance tasks of a queue, log or share group that failed at their last attempt.';
revoke execute on function sluice._explain_failures(text, text, boolean) from public;
grant execute on function sluice._explain_failures(text, text, boolean) to pgq_admin, sluice_admin;
