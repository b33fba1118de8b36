create or replace function sluice.capture(source_table regclass, queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_table text;
    v_trigger record;
begin
    select q.queue_id into v_queue_id from pgq.queue as q where q.queue_name = capture.queue_name;
    if not found then
        raise exception using
            errcode = 'PQ001',
            message = format('event log %L does not exist', queue_name),
            hint = format('create it with pgq.create_queue(%L)', queue_name);
    end if;
    select format('%I.%I', n.nspname, c.relname)
    into strict v_table
    from pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace
    where c.oid = source_table;

    -- One trigger per statement, not per row. A trigger that reads transition tables is for one kind of change.
    for v_trigger in
        select *
        from (values
            ('insert', 'referencing new table as new_rows'),
            ('update', 'referencing old table as old_rows new table as new_rows'),
            ('delete', 'referencing old table as old_rows'),
            ('truncate', '')
        ) as wanted (change, transition_tables)
    loop
        execute format(
            'create or replace trigger %I after %s on %s %s
             for each statement execute function sluice.capture_changes(%L)',
            format('sluice_capture_%s_%s', v_trigger.change, v_queue_id),
            v_trigger.change, v_table, v_trigger.transition_tables, queue_name
        );
    end loop;
end;
$$;

comment on function sluice.capture(regclass, text) is
    'From now on append one event per changed row of the table to the event log, in the transaction of the change.';
revoke execute on function sluice.capture(regclass, text) from public;
grant execute on function sluice.capture(regclass, text) to pgq_admin, sluice_admin;
