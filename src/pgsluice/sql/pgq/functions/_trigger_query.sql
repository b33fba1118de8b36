-- The query reads one row, r; of an update also the row as it was, o. Its text is made of the names of columns alone:
-- the rows are the parameters 1 and 2, the type of the event and the name of the table 3 and 4.
create or replace function pgq._trigger_query(
    kind text, operation text, source_table oid, key text[], ignored text[], backup boolean
)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    c_before constant text := '(select %s from (select o.*) as r)';
    v_is_update constant boolean := operation = 'UPDATE';
    v_row text;
    v_magic record;
    v_fields text[] := array['$3', null, '$4', 'null', 'null', 'null'];
    v_key text;
    v_shown text;
    v_hidden text;
    v_checks text[] := array['false', 'false', 'false'];
begin
    if kind = 'json' then
        v_row := pgq._trigger_json_sql(source_table, ignored);
    elsif kind = 'urlencoded' or (backup and v_is_update) then
        v_row := pgq._trigger_urlencoded_sql(source_table, ignored);
    end if;
    if kind = 'statement' then
        v_fields[2] := pgq._trigger_statement_sql(operation, source_table, key, ignored);
    else
        v_fields[2] := v_row;
    end if;
    if backup and v_is_update then
        v_fields[4] := format(c_before, v_row);
    end if;
    for v_magic in
        select m.field, m.content from pgq._trigger_magic(source_table) as m
    loop
        v_fields[v_magic.field] := v_magic.content;
    end loop;

    -- Whether a column changed is a question of its bytes: what is equal and yet another value, as 1.0 and 1.00 or two
    -- spellings in citext, is a change too. Whether the key did is a question to its type.
    select
        format('row(%s)', string_agg('r.' || c.ident, ', ') filter (where c.is_key)),
        format('row(%s)', string_agg('r.' || c.ident, ', ') filter (where not c.is_hidden)),
        format('row(%s)', string_agg('r.' || c.ident, ', ') filter (where c.is_hidden))
    into v_key, v_shown, v_hidden
    from pgq._trigger_columns(source_table, key, ignored) as c;
    if kind = 'statement' and operation <> 'INSERT' then
        v_checks[3] := format('not (%s is not null)', case when v_is_update then format(c_before, v_key) else v_key end);
    end if;
    if v_is_update then
        v_checks[1] := format(
            'not record_image_eq(%1$s, %2$s) and not record_eq(%1$s, %2$s)', v_key, format(c_before, v_key)
        );
        if kind = 'statement' or ignored is not null then
            v_checks[2] := format(
                'record_image_eq(%s, %s) and not record_image_eq(%s, %s)',
                v_shown, format(c_before, v_shown), v_hidden, format(c_before, v_hidden)
            );
        end if;
    end if;

    return format(
        'select array[%s]::text[], %s, %s, %s from (select ($1).*) as r %s',
        array_to_string(v_fields, ', '), v_checks[1], v_checks[2], v_checks[3],
        case when v_is_update then 'cross join (select ($2).*) as o' end
    );
end;
$$;

comment on function pgq._trigger_query(text, text, oid, text[], text[], boolean) is
    'SQL that makes the fields of an event of a change, and says whether the key changed, whether only columns that are left out did, and whether the key of a statement has a null.';
revoke execute on function pgq._trigger_query(text, text, oid, text[], text[], boolean) from public;
grant execute on function pgq._trigger_query(text, text, oid, text[], text[], boolean) to public;
