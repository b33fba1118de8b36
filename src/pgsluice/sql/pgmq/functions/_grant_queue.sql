-- Queue tables are created after the installation, so each gets the grants of the roles here.
create or replace function pgmq._grant_queue(queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_grant record;
    v_queue text := pgmq.format_table_name(queue_name, 'q');
    v_archive text := pgmq.format_table_name(queue_name, 'a');
    -- Enough to count messages and compute ages, without access to payloads.
    v_counting constant text := 'select (msg_id, read_ct, enqueued_at, last_read_at, vt)';
begin
    for v_grant in
        select *
        from (values
            ('sluice_admin', 'select, insert, update, delete, truncate', 'table', v_queue),
            ('sluice_admin', 'select, insert, update, delete, truncate', 'table', v_archive),
            ('sluice_admin', 'select', 'sequence', v_queue || '_msg_id_seq'),
            ('sluice_writer', 'insert', 'table', v_queue),
            ('sluice_writer', 'select (msg_id)', 'table', v_queue), -- send returns it
            ('sluice_reader', 'select, update, delete', 'table', v_queue),
            ('sluice_reader', 'select, insert', 'table', v_archive),
            ('sluice_reader', 'select', 'sequence', v_queue || '_msg_id_seq'),
            ('sluice_monitor', v_counting, 'table', v_queue),
            ('sluice_monitor', v_counting, 'table', v_archive),
            ('sluice_monitor', 'select', 'sequence', v_queue || '_msg_id_seq')
        ) as wanted (role_name, privileges, kind, object)
        where to_regrole(wanted.role_name) is not null
    loop
        execute format(
            'grant %s on %s pgmq.%I to %I',
            v_grant.privileges, v_grant.kind, v_grant.object, v_grant.role_name
        );
    end loop;
    -- PGMQ's grants, and its default privileges, let pg_monitor read payloads. It has the rights of sluice_monitor.
    for v_grant in
        select t.table_oid::regclass as object
        from unnest(array[v_queue, v_archive, v_queue || '_msg_id_seq']) as k (name)
        join pg_class as r on r.relnamespace = 'pgmq'::regnamespace and r.relname = k.name::name
        cross join lateral (
            select r.oid as table_oid union select t.relid from pg_partition_tree(r.oid::regclass) as t
        ) as t
        -- As a subquery: joined with thousands of expected partitions, the planner would scan the catalog.
        cross join lateral aclexplode((select c.relacl from pg_class as c where c.oid = t.table_oid)) as a
        where a.grantee = to_regrole('pg_monitor') and a.privilege_type = 'SELECT'
    loop
        execute format('revoke select on %s from pg_monitor', v_grant.object);
    end loop;
end;
$$;

comment on function pgmq._grant_queue(text) is
    'Grant the existing roles their rights on a new queue''s tables.';
revoke execute on function pgmq._grant_queue(text) from public;
grant execute on function pgmq._grant_queue(text) to sluice_admin;
