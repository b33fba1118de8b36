-- The rows have the table's type instead of record, so that each plan here is for one table.
--
-- Code that runs per row is PL/pgSQL, which caches its plans; SQL functions that are not inlined do not.
create or replace function pgq._trigger_change(
    fields text[], kind text, operation text, source_table oid, key text[], ignored text[], backup boolean,
    queue_name text, row_before anyelement, row_after anyelement
)
returns text[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_is_update constant boolean := operation = 'UPDATE';
    v_before constant text[] := pgq._trigger_contents(record_out(row_before)::text);
    v_after constant text[] := pgq._trigger_contents(record_out(row_after)::text);
    c_fields constant text[] := array[
        '_pgq_ev_type', '_pgq_ev_data', '_pgq_ev_extra1', '_pgq_ev_extra2', '_pgq_ev_extra3', '_pgq_ev_extra4'
    ];
    v_field integer;
    v_columns record;
    v_is_same boolean := true;
    v_shown_changed boolean := false;
    v_hidden_changed boolean := false;
begin
    select
        coalesce(array_agg(c.attname::text order by c.attnum), '{}') as names,
        array_agg(c.atttypid order by c.attnum) as types,
        array_agg(c.attname = any (key) and not c.is_magic order by c.attnum) as in_key,
        array_agg(c.is_magic order by c.attnum) as magic,
        array_agg(c.is_magic or coalesce(c.attname = any (ignored), false) order by c.attnum) as hidden
    into v_columns
    from (
        select a.attname, a.atttypid, a.attnum, starts_with(a.attname, '_pgq_ev_') as is_magic
        from pg_attribute as a
        where a.attrelid = source_table and a.attnum > 0 and not a.attisdropped
    ) as c;
    if v_is_update then
        for v_column in 1..cardinality(v_columns.names)
        loop
            -- A column has changed if its text differs. A key has changed if its values are not equal: 1.0 is the key
            -- 1.00.
            continue when v_before[v_column] is not distinct from v_after[v_column];
            if v_columns.in_key[v_column] and v_is_same then
                begin
                    execute format('select record_eq(row(($1).%1$I), row(($2).%1$I))', v_columns.names[v_column])
                    into v_is_same
                    using row_before, row_after;
                exception
                    -- For a type without equality, a different text is a different value.
                    when undefined_function then
                        v_is_same := false;
                end;
            end if;
            v_hidden_changed := v_hidden_changed or v_columns.hidden[v_column];
            v_shown_changed := v_shown_changed or not v_columns.hidden[v_column];
        end loop;
    end if;
    if not v_is_same then
        perform pgq._trigger_refuse(
            'primary key update not allowed',
            'delete the row and insert it with its new key, or name columns that stay with pkey=',
            fields[3], queue_name
        );
    end if;
    if v_hidden_changed and not v_shown_changed and (kind = 'statement' or ignored is not null) then
        return null;
    end if;

    fields[2] := case
        when kind = 'statement' then
            pgq._trigger_statement(operation, v_columns.names, v_before, v_after, v_columns.in_key, v_columns.hidden)
        when operation = 'DELETE' then
            pgq._trigger_row(kind, v_columns.names, v_columns.types, v_before, v_columns.hidden, row_before)
        else pgq._trigger_row(kind, v_columns.names, v_columns.types, v_after, v_columns.hidden, row_after)
    end;
    if fields[2] is null then
        perform pgq._trigger_refuse(
            'logtriga: Unexpected NULL key value', 'name columns of the table that are never null with pkey=',
            fields[3], queue_name
        );
    end if;
    if backup and v_is_update then
        fields[4] := pgq._trigger_row(kind, v_columns.names, v_columns.types, v_before, v_columns.hidden, row_before);
    end if;
    -- A column named after a field sets that field.
    if true = any (v_columns.magic) then
        for v_column in 1..cardinality(v_columns.names)
        loop
            continue when not v_columns.magic[v_column];
            v_field := array_position(c_fields, v_columns.names[v_column]);
            if v_field is null then
                raise exception using
                    errcode = 'PQ007',
                    message = format('Unknown magic column: %s', v_columns.names[v_column]),
                    detail = 'A column whose name begins with _pgq_ev_ is a field of the event.',
                    hint = 'name it _pgq_ev_type, _pgq_ev_data or _pgq_ev_extra1 to _pgq_ev_extra4, or use another prefix';
            end if;
            fields[v_field] := case operation when 'DELETE' then v_before[v_column] else v_after[v_column] end;
        end loop;
    end if;
    return fields;
end;
$$;

comment on function pgq._trigger_change(text[], text, text, oid, text[], text[], boolean, text, anyelement, anyelement) is
    'Return the event of a changed row, as arguments of insert_event after the log; null if only ignored columns changed.';
revoke execute on function pgq._trigger_change(text[], text, text, oid, text[], text[], boolean, text, anyelement, anyelement) from public;
grant execute on function pgq._trigger_change(text[], text, text, oid, text[], text[], boolean, text, anyelement, anyelement) to public;
