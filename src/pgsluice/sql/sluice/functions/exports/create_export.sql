/*
 * From its commit on, maintenance keeps archived messages until this export has verified them too.
 *
 * Calls: sluice._registered_name, sluice._require_short_name. Reads: the columns of the archive. Writes: sluice.export.
 */
create or replace function sluice.create_export(queue_name text, export_name text, lake text, lake_id text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_name text := sluice._registered_name(queue_name);
    v_archive text := pgmq.format_table_name(v_queue_name, 'a');
    v_lake_id text;
    v_columns text;
begin
    if export_name is null or lake is null or lake_id is null then
        raise exception using
            errcode = '22004',
            message = format('an export of queue %L has no name, or no table of the lake', queue_name),
            hint = 'pass its name, and the location and identifier of the table';
    end if;
    perform sluice._require_short_name('name of the export'::text, export_name);
    -- The lake has PGMQ's columns. Other columns would be lost when the row is dropped.
    select string_agg(format('%I', a.attname), ', ' order by a.attnum)
    into v_columns
    from pg_attribute as a
    where a.attrelid = to_regclass(format('pgmq.%I', v_archive))
      and a.attnum > 0
      and not a.attisdropped
      and a.attgenerated = ''
      and a.attname <> all (array[
          'msg_id', 'read_ct', 'enqueued_at', 'last_read_at', 'archived_at', 'vt', 'message', 'headers'
      ]);
    if v_columns is not null then
        raise exception using
            errcode = 'object_not_in_prerequisite_state',
            message = format('the archive of queue %L has columns that an export does not copy: %s', queue_name, v_columns),
            hint = 'make them generated columns of message and headers, or copy their values elsewhere and drop them';
    end if;

    insert into sluice.export as e (queue_name, export_name, lake, lake_id)
    values (v_queue_name, create_export.export_name, create_export.lake, create_export.lake_id)
    on conflict on constraint export_queue_name_export_name_key do nothing;
    if found then
        return true;
    end if;
    update sluice.export as e
    set lake = create_export.lake
    where e.queue_name = v_queue_name and e.export_name = create_export.export_name and e.lake <> create_export.lake
      and e.lake_id = create_export.lake_id;
    select e.lake_id
    into v_lake_id
    from sluice.export as e
    where e.queue_name = v_queue_name and e.export_name = create_export.export_name;
    if v_lake_id is distinct from create_export.lake_id then
        raise exception using
            errcode = 'QU006',
            message = format('export %L of queue %L is of another table than the one in %s', export_name, queue_name, lake),
            hint = format(
                'bring that table back; or give the export another name; or, if the table is lost, sluice.drop_export(%L, %L)'
                || ' and begin anew with what the archive holds', queue_name, export_name
            );
    end if;
    return false;
end;
$$;

comment on function sluice.create_export(text, text, text, text) is
    'Keep archived messages of a queue until they are verified in a lake table; false if the export exists.';
revoke execute on function sluice.create_export(text, text, text, text) from public;
grant execute on function sluice.create_export(text, text, text, text) to sluice_admin;
