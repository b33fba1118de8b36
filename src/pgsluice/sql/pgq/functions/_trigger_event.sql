-- A composite type for the rows, not record: the plans in here are of one table each.
create or replace function pgq._trigger_event(
    kind text, operation text, moment text, level text, source_table oid, table_name text[], arguments text[],
    row_before anyelement, row_after anyelement,
    out skip boolean, out fields text[], out expressions text[]
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_table text := array_to_string(table_name, '.');
    v_options record;
    v_key text[];
    v_type text;
    v_key_changed boolean;
    v_only_hidden_changed boolean;
    v_key_is_null boolean;
    v_problem text;
    v_hint text;
begin
    skip := false;
    -- The role of a session whose changes are nobody else's business.
    if current_setting('session_replication_role') = 'local' then
        return;
    end if;

    v_options := pgq._trigger_options(operation, moment, level, arguments);
    skip := v_options.skip;
    expressions := v_options.expressions;
    v_key := coalesce(regexp_split_to_array(v_options.pkey, ','), pgq._trigger_key(source_table));
    if operation in ('UPDATE', 'DELETE') and array_to_string(v_key, ',') = '' then
        v_problem := 'Update/Delete on table without pkey';
        v_hint := 'give the table a primary key, or name the columns that are one with pkey=';
    elsif v_options.deny then
        v_problem := format('Table ''%s'' to queue ''%s'': change not allowed (%s)', v_table, arguments[0], operation);
        v_hint := 'the trigger says deny: change the table where this one is copied from';
    else
        v_type := pgq._trigger_type(kind, operation, table_name, v_key);
        if operation = 'TRUNCATE' then
            fields := array[v_type, case kind when 'json' then '{}' else '' end, v_table, null, null, null];
            return;
        end if;
        execute pgq._trigger_query(
            kind, operation, source_table, coalesce(pgq._trigger_names(v_options.pkey), v_key), v_options.ignored,
            v_options.backup
        )
        into fields, v_key_changed, v_only_hidden_changed, v_key_is_null
        using case operation when 'DELETE' then row_before else row_after end, row_before, v_type, v_table;
        if v_key_changed then
            v_problem := 'primary key update not allowed';
            v_hint := 'delete the row and insert it with its new key, or name columns that stay with pkey=';
        elsif v_key_is_null then
            v_problem := 'logtriga: Unexpected NULL key value';
            v_hint := 'name columns that are never null with pkey=';
        elsif v_only_hidden_changed then
            fields := null;
        end if;
    end if;
    if v_problem is not null then
        raise exception using
            errcode = 'PQ007',
            message = v_problem,
            detail = format(
                'Changes of table %s go to event log %L; its key is (%s).', v_table, arguments[0], array_to_string(v_key, ', ')
            ),
            hint = v_hint;
    end if;
end;
$$;

comment on function pgq._trigger_event(text, text, text, text, oid, text[], text[], anyelement, anyelement) is
    'The event of a change, as arguments of insert_event after the log (null: none), and the expressions that remain for the caller.';
revoke execute on function pgq._trigger_event(text, text, text, text, oid, text[], text[], anyelement, anyelement) from public;
grant execute on function pgq._trigger_event(text, text, text, text, oid, text[], text[], anyelement, anyelement) to public;
