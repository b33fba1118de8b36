-- Runs for every writer of a captured table, with the rights of the owner: writers of the table need no rights on the log,
-- and no code of theirs may run here (see sluice._is_core_type). The settings give the same text for a row in every
-- session.
create or replace function sluice.capture_changes()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
set timezone = 'UTC'
set datestyle = 'ISO'
set intervalstyle = 'iso_8601'
set bytea_output = 'hex'
set extra_float_digits = 1
set lc_monetary = 'C'
as $$
declare
    v_log_number constant text := substring(tg_name from '[0-9]+$');
    v_queue_id integer;
    v_segment integer;
    v_event_id bigint;
    v_planned text[];
    v_events text[];
    v_options jsonb;
    v_before boolean;
    v_target record;
    v_shape record;
    v_old text;
    v_new text;
    v_key text;
    v_gone text;
    v_is_partition boolean;
    v_moved boolean;
    v_changes text;
    v_root oid;
    v_live_columns text[];
    v_live_types oid[];
    v_marker text;
    v_is_nested boolean;
    v_bytes_max integer;
    v_stored_bytes bigint;
    v_once_bytes integer;
    v_fitting record;
    v_image text;
    v_rows text;
    v_names text[];
    v_left_out jsonb;
    v_old_rows text;
    v_new_rows text;
begin
    -- Most statements change one row. For these, all is static: the plans of this function are cached for each trigger, and
    -- made again when its table changes, with the shape of the table as a constant. It writes whole rows, so it is only for
    -- tables of built-in types without virtual columns. In an older snapshot the catalog would hide a column that rows have.
    -- Each statement, IF and use of tg_argv costs: so one statement reads the log's row and writes the text that
    -- json_build_object would return, and sluice._planned_shape checks what the same trigger always has. The size of a row counts
    -- compressed values as they are stored, at least a 255th: above 256 kB the row may have more than 64 MB, and above 32 kB
    -- an update may repeat a large value. It is measured as a whole, which fails if the row has more than 1 GB.
    if tg_op <> 'TRUNCATE'
        and current_setting('transaction_isolation') = 'read committed'
        and set_config('sluice.planned_trigger', concat(tg_relid, ' ', tg_name), true) is not null
    then
        begin
            if tg_op = 'INSERT' then
                select q.queue_id, q.queue_cur_table, s.shape,
                    case when s.shape is not null then array(
                        select case when pg_column_size(n.*) <= 262144 then concat(
                            '{"op" : "c", "before" : null, "after" : ', row_to_json(n.*), ', "source" : ',
                            s.shape[1], pg_current_xact_id(),
                            '}, "ts_ms" : ', (extract(epoch from clock_timestamp()) * 1000)::bigint, '}'
                        ) end
                        from new_rows as n
                        limit 2
                    ) end
                into v_queue_id, v_segment, v_planned, v_events
                from (select sluice._planned_shape() offset 0) as s (shape)
                left join pgq.queue as q on q.queue_name = s.shape[3] and not q.queue_disable_insert;
            elsif tg_op = 'DELETE' then
                select q.queue_id, q.queue_cur_table, s.shape,
                    case when s.shape is not null then array(
                        select case when pg_column_size(o.*) <= 262144 then concat(
                            '{"op" : "d", "before" : ', row_to_json(o.*), ', "after" : null, "source" : ',
                            s.shape[1], pg_current_xact_id(),
                            '}, "ts_ms" : ', (extract(epoch from clock_timestamp()) * 1000)::bigint, '}'
                        ) end
                        from old_rows as o
                        limit 2
                    ) end
                into v_queue_id, v_segment, v_planned, v_events
                from (select sluice._planned_shape() offset 0) as s (shape)
                left join pgq.queue as q on q.queue_name = s.shape[3] and not q.queue_disable_insert;
            else
                select q.queue_id, q.queue_cur_table, s.shape,
                    case when s.shape is not null then array(
                        select case when pg_column_size(o.*) <= 32768 and pg_column_size(n.*) <= 262144 then concat(
                            '{"op" : "u", "before" : ', row_to_json(o.*), ', "after" : ', row_to_json(n.*), ', "source" : ',
                            s.shape[1], pg_current_xact_id(),
                            '}, "ts_ms" : ', (extract(epoch from clock_timestamp()) * 1000)::bigint, '}'
                        ) end
                        from old_rows as o
                        cross join new_rows as n
                        limit 2
                    ) end
                into v_queue_id, v_segment, v_planned, v_events
                from (select sluice._planned_shape() offset 0) as s (shape)
                left join pgq.queue as q on q.queue_name = s.shape[3] and not q.queue_disable_insert;
            end if;
        exception
            when internal_error or out_of_memory or program_limit_exceeded then
                v_events := null;
        end;
        if v_events[1] is not null and cardinality(v_events) = 1 and v_queue_id is not null then
            if v_planned[5] is not null then
                v_shape := sluice._capture_shape(tg_relid, '{}'::jsonb, null::text[], null::oid[]);
                perform sluice._note_shape(
                    tg_relid, v_shape.shape, v_shape.kept_columns, null::text[], null::oid[]
                );
            end if;
            -- Assigned, as PERFORM would run a query.
            v_event_id := pgq._append_event(
                v_queue_id, v_segment, pg_current_xact_id(),
                case tg_op when 'INSERT' then 'c' when 'UPDATE' then 'u' else 'd' end,
                v_events[1], v_planned[2], v_planned[4], null, null
            );
            if pg_trigger_depth() > 1 or current_setting('sluice.nested', true) <> '' then
                perform sluice._order_nested(
                    concat(tg_relid, ' ', v_log_number), pg_trigger_depth(),
                    format('event_%s', v_queue_id), v_planned[2], (v_planned[1] || '0}')::json -> 'key', v_event_id
                );
            end if;
            return null;
        elsif cardinality(v_events) = 0 then
            return null;
        end if;
    end if;

    v_options := coalesce(tg_argv[1], '{}');
    v_before := coalesce((v_options -> 'before')::boolean, true);
    v_is_partition := tg_argv[2] is not null;
    v_root := coalesce(pg_partition_root(tg_relid), tg_relid);
    v_marker := format('sluice.truncating_%s', v_root);
    if tg_op = 'TRUNCATE' and v_is_partition and current_setting(v_marker, true) = 'on' then
        return null;
    elsif tg_op = 'TRUNCATE' and not v_is_partition then
        perform set_config(v_marker, case tg_when when 'BEFORE' then 'on' else 'off' end, true);
        if tg_when = 'BEFORE' then
            return null;
        end if;
    end if;
    v_target := sluice._capture_target(tg_argv[0], v_log_number::integer);
    if current_setting('transaction_isolation') <> 'read committed' then
        v_live_columns := sluice._live_columns(v_root);
        if tg_op <> 'TRUNCATE' then
            begin
                execute (
                    select format(
                        'select array[%s] from (values (true)) as v left join (select * from %s limit 1) as r on true',
                        string_agg(
                            case when c.name is not null and a.attnum is null then format('pg_typeof(r.%I)::oid', c.name) else 'null' end,
                            ', ' order by c.attnum
                        ),
                        case tg_op when 'DELETE' then 'old_rows' else 'new_rows' end
                    )
                    from unnest(v_live_columns) with ordinality as c (name, attnum)
                    left join pg_attribute as a on a.attrelid = v_root and a.attnum = c.attnum and a.attgenerated = 'v'
                )
                into v_live_types;
            exception
                -- The rows of a trigger have no virtual columns, and the snapshot hides that a new column is one.
                when internal_error then
                    raise exception using
                        errcode = '40001',
                        message = format(
                            'could not serialize access to %I.%I due to a concurrent change of its columns', tg_table_schema,
                            tg_table_name
                        ),
                        detail = sqlerrm,
                        hint = 'retry the transaction';
            end;
        end if;
    end if;
    v_shape := sluice._capture_shape(v_root, v_options, v_live_columns, v_live_types);
    if v_is_partition and v_root = tg_relid then
        -- It was detached. Its rows stay in the copies of its former table, until the capture is dropped.
        select p.names[1], p.names[2]
        into v_shape.schema_name, v_shape.table_name
        from parse_ident(tg_argv[2]) as p (names);
        v_shape.shape := null;
    elsif tg_op = 'TRUNCATE' and not v_is_partition then
        -- Its event has no columns, and tells only which table it is, whatever the name of that.
        v_shape.shape := (
            select s.shape
            from sluice.captured_shape as s
            where s.table_oid = v_root
            order by s.shape_id desc
            limit 1
        );
    elsif not v_shape.is_noted then
        perform sluice._note_shape(v_root, v_shape.shape, v_shape.kept_columns, v_live_columns, v_live_types);
    end if;
    v_old_rows := case tg_op when 'TRUNCATE' then format('%I.%I', tg_table_schema, tg_table_name) else 'old_rows' end;
    v_new_rows := 'new_rows';
    if tg_op <> 'TRUNCATE' or v_is_partition then
        v_bytes_max := coalesce((v_options -> 'row_bytes_max')::integer, 67108864);
        v_fitting := sluice._fitting_columns(v_shape.kept_columns, v_shape.key_columns, v_bytes_max);
        execute (
            select format(
                'select max(s.bytes) from (%s) as s (bytes)',
                string_agg(format('select %s from %s as r', v_fitting.stored_sql, i.relation), ' union all ')
            )
            from (values (v_old_rows, tg_op <> 'INSERT'), (v_new_rows, tg_op in ('INSERT', 'UPDATE'))) as i (relation, applies)
            where i.applies
        )
        into v_stored_bytes;
        for v_image, v_rows in
            select i.image, i.relation
            from (values ('before', v_old_rows, tg_op <> 'INSERT'), ('after', v_new_rows, tg_op in ('INSERT', 'UPDATE')))
                as i (image, relation, applies)
            where i.applies
              and v_stored_bytes > v_bytes_max / 255
        loop
            execute format(
                'select array_agg(distinct n.name order by n.name)
                 from %s as r
                 cross join lateral %s as s
                 cross join unnest(%s) as n (name)
                 where n.name is not null',
                v_rows, v_fitting.sizes_sql, v_fitting.left_out_sql
            )
            into v_names;
            if v_names is not null then
                v_left_out := coalesce(v_left_out, '{}') || jsonb_build_object(v_image, v_names);
            end if;
        end loop;
        if v_left_out is not null then
            v_old_rows := format('(select f.* from %s as r cross join lateral %s as f)', v_old_rows, v_fitting.fitted_sql);
            v_new_rows := format('(select f.* from %s as r cross join lateral %s as f)', v_new_rows, v_fitting.fitted_sql);
        end if;
    end if;
    -- The whole row is c.*, because c alone could be a column.
    v_old := format('(select %s from %s as r) as c', v_shape.columns_sql, v_old_rows);
    v_new := format('(select %s from %s as r) as c', v_shape.columns_sql, v_new_rows);
    v_key := case
        when v_shape.key_sql is null then 'null::json'
        else format('(select row_to_json(k.*) from (select %s) as k)', v_shape.key_sql)
    end;
    v_gone := case when v_before then 'row_to_json(c.*)' else v_key end;
    if tg_op = 'TRUNCATE' and v_is_partition then
        perform sluice._require_all_rows(tg_relid::regclass);
    elsif tg_op = 'UPDATE' and v_shape.partitioned then
        -- A row that moves to another partition is lost if a trigger there returns null.
        execute 'select (select count(*) from old_rows) <> (select count(*) from new_rows)' into v_moved;
    end if;
    if tg_op = 'UPDATE' and v_before and v_moved is not true and v_stored_bytes > 32768 then
        v_once_bytes := 32768;
    end if;

    v_changes := case
        when tg_op = 'INSERT' then format(
            'select ''c'' as op, null::json as before, row_to_json(c.*) as after from %s', v_new
        )
        when tg_op = 'DELETE' then format(
            'select ''d'' as op, %s as before, null::json as after from %s', v_gone, v_old
        )
        when tg_op = 'TRUNCATE' and v_is_partition then format(
            'select ''d'' as op, %s as before, null::json as after from %s', v_gone, v_old
        )
        when tg_op = 'TRUNCATE' then
            'select ''t'' as op, null::json as before, null::json as after'
        when v_moved then format(
            'select ''d'' as op, %s as before, null::json as after from %s
             union all
             select ''c'', null, row_to_json(c.*) from %s',
            v_gone, v_old, v_new
        )
        else sluice._update_sql(
            v_shape.kept_columns, v_shape.key_columns, v_shape.columns_sql, v_key, v_old_rows, v_new_rows, v_before, v_once_bytes,
            v_options ?| '{columns,ignore}' and v_left_out is null
        )
    end;
    v_is_nested := tg_op <> 'TRUNCATE' and (pg_trigger_depth() > 1 or current_setting('sluice.nested', true) <> '');
    if v_is_nested then
        v_event_id := nextval(v_target.event_seq);
    end if;
    execute format(
        'insert into pgq.%I (ev_id, ev_time, ev_type, ev_data, ev_extra1, ev_extra2)
         select nextval($1), now(), change.op,
             json_build_object(
                 ''op'', change.op, ''before'', change.before, ''after'', change.after, ''source'', $2, ''ts_ms'', $3 %s
             ),
             $4, $5
         from (%s) as change',
        v_target.event_table,
        concat(
            case when v_left_out is not null then ', ''left_out'', $6' end,
            case when v_once_bytes is not null then ', ''unchanged'', change.unchanged' end
        ),
        v_changes
    )
    using v_target.event_seq,
        json_build_object(
            'schema', v_shape.schema_name, 'table', v_shape.table_name, 'key', v_shape.key_columns, 'txId', pg_current_xact_id()::text::bigint
        ),
        (extract(epoch from clock_timestamp()) * 1000)::bigint,
        format('%I.%I', v_shape.schema_name, v_shape.table_name),
        v_shape.shape,
        v_left_out;
    if v_is_nested then
        perform sluice._order_nested(
            concat(v_root, ' ', v_log_number), pg_trigger_depth(),
            substring(v_target.event_table from '^event_[0-9]+'), format('%I.%I', v_shape.schema_name, v_shape.table_name),
            to_json(v_shape.key_columns), v_event_id
        );
    end if;
    return null;
end;
$$;

comment on function sluice.capture_changes() is
    'Trigger of captured tables: append each changed row as {op, before, after, source, ts_ms} to the event log, with left_out and unchanged for large values.';
revoke execute on function sluice.capture_changes() from public;
grant execute on function sluice.capture_changes() to pgq_admin, sluice_admin;
