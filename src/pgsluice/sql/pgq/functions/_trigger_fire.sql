-- Without a pinned search_path, like the triggers that call it: the expressions in their arguments are resolved in the
-- session that changes the table. So this function uses no operators.
create or replace function pgq._trigger_fire(
    kind text, operation text, moment text, level text, source_table oid, table_name text[], arguments text[],
    row_before anyelement, row_after anyelement
)
returns boolean
language plpgsql
as $$
declare
    v_event record;
    v_fields text[];
    v_is_wanted boolean := true;
begin
    v_event := pgq._trigger_event(
        kind, operation, moment, level, source_table, table_name, arguments, row_before, row_after
    );
    v_fields := v_event.fields;
    if v_fields is not null and v_event.expressions is not null then
        execute pgq._trigger_expressions_sql(v_event.expressions)
        into v_fields, v_is_wanted
        using coalesce(row_after, row_before), v_fields;
    end if;
    if v_fields is not null and v_is_wanted then
        perform pgq.insert_event(
            arguments[0], v_fields[1], v_fields[2], v_fields[3], v_fields[4], v_fields[5], v_fields[6]
        );
    end if;
    return not v_event.skip;
end;
$$;

comment on function pgq._trigger_fire(text, text, text, text, oid, text[], text[], anyelement, anyelement) is
    'Append the event of a change to the log of a trigger; false if the trigger suppresses the change itself.';
revoke execute on function pgq._trigger_fire(text, text, text, text, oid, text[], text[], anyelement, anyelement) from public;
grant execute on function pgq._trigger_fire(text, text, text, text, oid, text[], text[], anyelement, anyelement) to public;
