create or replace function pgq._trigger_event(
    kind text, operation text, moment text, level text, source_table oid, table_name text[], arguments text[],
    row_before anyelement, row_after anyelement,
    out skip boolean, out fields text[], out expressions text[]
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_table constant text := array_to_string(table_name, '.');
    v_options record;
    v_key text[];
begin
    skip := false;
    -- A session with this role does not replicate its changes.
    if current_setting('session_replication_role') = 'local' then
        return;
    end if;

    v_options := pgq._trigger_options(operation, moment, level, arguments);
    skip := v_options.skip;
    expressions := v_options.expressions;
    v_key := coalesce(regexp_split_to_array(v_options.pkey, ','), array(
        -- The primary key without included columns.
        select a.attname::text
        from pg_index as i
        cross join unnest(i.indkey::smallint[]) with ordinality as k (attnum, position)
        join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.attnum
        where i.indrelid = source_table
          and i.indisprimary
          and k.position <= i.indnkeyatts
        order by k.position
    ));
    if operation in ('UPDATE', 'DELETE') and array_to_string(v_key, '') = '' then
        perform pgq._trigger_refuse(
            'Update/Delete on table without pkey',
            'give the table a primary key, or name its key columns with pkey=',
            v_table, arguments[0]
        );
    end if;
    if v_options.deny then
        perform pgq._trigger_refuse(
            format('Table ''%s'' to queue ''%s'': change not allowed (%s)', v_table, arguments[0], operation),
            'the trigger denies changes to this copy: change the original table',
            v_table, arguments[0]
        );
    end if;

    fields := array[
        case
            when kind = 'json' then format(
                '{"op":%s,"table":%s,"pkey":%s}', to_json(operation), array_to_json(table_name), array_to_json(v_key)
            )
            when operation = 'TRUNCATE' then 'R'
            when kind = 'statement' then left(operation, 1)
            else format('%s:%s', left(operation, 1), array_to_string(v_key, ','))
        end,
        case kind when 'json' then '{}' else '' end, v_table, null, null, null
    ];
    if operation <> 'TRUNCATE' then
        fields := pgq._trigger_change(
            fields, kind, operation, source_table,
            coalesce(string_to_array(v_options.pkey, ',') || regexp_split_to_array(v_options.pkey, E'[\\s,]+'), v_key),
            v_options.ignored, v_options.backup, arguments[0], row_before, row_after
        );
    end if;
end;
$$;

comment on function pgq._trigger_event(text, text, text, text, oid, text[], text[], anyelement, anyelement) is
    'Return the event of a change, as arguments of insert_event after the log (null: none), and the expressions that the caller evaluates.';
revoke execute on function pgq._trigger_event(text, text, text, text, oid, text[], text[], anyelement, anyelement) from public;
grant execute on function pgq._trigger_event(text, text, text, text, oid, text[], text[], anyelement, anyelement) to public;
