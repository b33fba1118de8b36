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
            ('pg_monitor', 'select', 'table', v_queue),
            ('pg_monitor', 'select', 'table', v_archive),
            ('pg_monitor', 'select', 'sequence', v_queue || '_msg_id_seq'),
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
end;
$$;

comment on function pgmq._grant_queue(text) is
    'Grant the existing roles their rights on a new queue''s tables.';
revoke execute on function pgmq._grant_queue(text) from public;
grant execute on function pgmq._grant_queue(text) to sluice_admin;
