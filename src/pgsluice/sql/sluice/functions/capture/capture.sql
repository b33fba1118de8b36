create or replace function sluice.capture(source_table regclass, log_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform sluice.capture(source_table, log_name, '{}'::jsonb);
end;
$$;

comment on function sluice.capture(regclass, text) is
    'Append one event per changed row of the table to the event log from now on, in the transaction of the change.';
revoke execute on function sluice.capture(regclass, text) from public;
grant execute on function sluice.capture(regclass, text) to pgq_admin, sluice_admin;

-- A trigger is created under a lock that conflicts with writers of the table: this waits for every transaction that has
-- written to the table to end, and all later writers fire the triggers. sluice.capture_snapshot relies on that.
create or replace function sluice.capture(source_table regclass, log_name text, options jsonb)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_shape record;
    v_is_new boolean;
    v_trigger record;
    v_partition regclass;
begin
    if source_table is null or log_name is null or options is null then
        raise exception using
            errcode = '22004',
            message = 'table, event log or options of a capture are null',
            hint = 'name a table and an event log; options are {} for none';
    end if;
    v_queue_id := (pgq._require_log(log_name)).queue_id;
    perform sluice._require_capture_options(options);
    perform sluice._require_capturable(source_table);
    v_shape := sluice._capture_shape(source_table::oid, options, null::text[], null::oid[]);
    perform sluice._require_capture_key(source_table, options, v_shape.key_columns);
    perform sluice._note_shape(
        source_table::oid, v_shape.shape, v_shape.kept_columns, null::text[], null::oid[]
    );

    v_is_new := not exists (
        select
        from sluice._captures() as c
        where c.trigger_table = capture.source_table
          and c.log_name = capture.log_name
    );

    -- Triggers of an earlier call that are not needed now, or of a dropped log with this name.
    for v_trigger in
        select c.trigger_name, c.trigger_table::regclass as trigger_table
        from sluice._captures() as c
        where c.source_table = capture.source_table
          and c.log_name = capture.log_name
          and (
              c.trigger_name <> all (array[
                  format('sluice_capture_%s_%s', c.operation, v_queue_id), format('sluice_capture_truncating_%s', v_queue_id),
                  format('~sluice_capture_begin_%s', v_queue_id)
              ])
              or not coalesce(
                  capture.options -> 'operations' ?| case c.operation when 'begin' then '{insert,update,delete}' else array[c.operation] end,
                  true
              )
          )
    loop
        execute format('drop trigger %I on %s', v_trigger.trigger_name, v_trigger.trigger_table);
    end loop;

    perform sluice._follow_partitions(log_name, source_table::oid); -- those of an earlier call
    perform sluice._create_capture_triggers(source_table, log_name, options);
    for v_partition in
        select p.relid from pg_partition_tree(source_table) as p where p.relid <> source_table order by p.relid::oid
    loop
        if v_is_new then
            perform sluice._create_capture_triggers(v_partition, log_name, options);
        else
            perform sluice._cover_partition(v_partition, log_name, options);
        end if;
    end loop;
    perform sluice._follow_partitions(log_name, source_table::oid);
end;
$$;

comment on function sluice.capture(regclass, text, jsonb) is
    'Capture with options: columns or ignore, key, before, operations, row_bytes_max, dropped_partitions, replicated. Called again it replaces the options, and covers new partitions with their rows.';
revoke execute on function sluice.capture(regclass, text, jsonb) from public;
grant execute on function sluice.capture(regclass, text, jsonb) to pgq_admin, sluice_admin;
