create or replace function sluice.capture(source_table regclass, queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform sluice.capture(source_table, queue_name, '{}'::jsonb);
end;
$$;

comment on function sluice.capture(regclass, text) is
    'Append one event per changed row of the table to the event log from now on, in the transaction of the change.';
revoke execute on function sluice.capture(regclass, text) from public;
grant execute on function sluice.capture(regclass, text) to pgq_admin, sluice_admin;

-- A trigger is created under a lock that conflicts with writers of the table: this waits for every transaction that has
-- written to the table to end, and all later writers fire the triggers. sluice.capture_snapshot relies on that.
create or replace function sluice.capture(source_table regclass, queue_name text, options jsonb)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_shape record;
    v_trigger record;
begin
    if source_table is null or queue_name is null or options is null then
        raise exception using
            errcode = '22004',
            message = 'table, event log or options of a capture are null',
            hint = 'name a table and an event log; options are {} for none';
    end if;
    v_queue_id := (pgq._require_log(queue_name)).queue_id;
    perform sluice._require_capture_options(options);
    perform sluice._require_capturable(source_table);
    v_shape := sluice._capture_shape(source_table::oid, options);
    perform sluice._require_capture_key(source_table, options, v_shape.key_columns);

    -- Triggers of an earlier call that are not needed now, or of a dropped log with this name.
    for v_trigger in
        select c.trigger_name, c.trigger_table::regclass as trigger_table
        from sluice._captures() as c
        where c.source_table = capture.source_table
          and c.queue_name = capture.queue_name
          and (
              c.trigger_name <> format('sluice_capture_%s_%s', c.operation, v_queue_id)
              or not coalesce(capture.options -> 'operations' ? c.operation, true)
              or (c.operation = 'truncate' and c.trigger_table <> c.source_table)
          )
    loop
        execute format('drop trigger %I on %s', v_trigger.trigger_name, v_trigger.trigger_table);
    end loop;

    -- Statement triggers, not row triggers. A trigger with transition tables handles one operation. The triggers of a
    -- partition fire for statements that name the partition, and those of its root for the others: each change is
    -- captured once. Truncating one partition does not truncate the table, so TRUNCATE is captured at the root only.
    for v_trigger in
        select wanted.operation, wanted.transition_tables, t.relid
        from (
            select capture.source_table as relid
            union
            select p.relid from pg_partition_tree(capture.source_table) as p
        ) as t
        cross join (values
            (1, 'insert', 'referencing new table as new_rows'),
            (2, 'update', 'referencing old table as old_rows new table as new_rows'),
            (3, 'delete', 'referencing old table as old_rows'),
            (4, 'truncate', '')
        ) as wanted (position, operation, transition_tables)
        where coalesce(options -> 'operations' ? wanted.operation, true)
          and (wanted.operation <> 'truncate' or t.relid = capture.source_table)
        order by t.relid <> capture.source_table, t.relid::oid, wanted.position
    loop
        execute format(
            'create or replace trigger %I after %s on %s %s
             for each statement execute function sluice.capture_changes(%L, %L)',
            format('sluice_capture_%s_%s', v_trigger.operation, v_queue_id),
            v_trigger.operation, v_trigger.relid, v_trigger.transition_tables, queue_name, options
        );
    end loop;
end;
$$;

comment on function sluice.capture(regclass, text, jsonb) is
    'Capture with options: columns or ignore, key, before, operations. Called again it replaces the options, and covers new partitions.';
revoke execute on function sluice.capture(regclass, text, jsonb) from public;
grant execute on function sluice.capture(regclass, text, jsonb) to pgq_admin, sluice_admin;
