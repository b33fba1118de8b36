create or replace function pgq._trigger_key_changed(
    suspects text[], row_before anyelement, row_after anyelement
)
returns boolean
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name text;
    v_is_same boolean;
begin
    foreach v_name in array suspects
    loop
        begin
            execute format('select record_eq(row(($1).%1$I), row(($2).%1$I))', v_name)
            into v_is_same
            using row_before, row_after;
        exception
            -- For a type without equality, a different text is a different value.
            when undefined_function then
                v_is_same := false;
        end;
        if not v_is_same then
            return true;
        end if;
    end loop;
    return false;
end;
$$;

comment on function pgq._trigger_key_changed(text[], anyelement, anyelement) is
    'True if one of the columns has another value after an update, by the equality of its type.';
revoke execute on function pgq._trigger_key_changed(text[], anyelement, anyelement) from public;
grant execute on function pgq._trigger_key_changed(text[], anyelement, anyelement) to public;
