create or replace function pgq._trigger_magic(source_table oid, out field integer, out content text)
returns setof record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_column record;
begin
    for v_column in
        select c.name, c.content from pgq._trigger_columns(source_table, null, null) as c where c.is_magic
    loop
        field := array_position(
            array['_pgq_ev_type', '_pgq_ev_data', '_pgq_ev_extra1', '_pgq_ev_extra2', '_pgq_ev_extra3', '_pgq_ev_extra4'],
            v_column.name
        );
        if field is null then
            raise exception using
                errcode = 'PQ007',
                message = format('Unknown magic column: %s', v_column.name),
                detail = 'A column whose name begins with _pgq_ev_ is a field of the event.',
                hint = 'name it _pgq_ev_type, _pgq_ev_data or _pgq_ev_extra1 to _pgq_ev_extra4, or begin it otherwise';
        end if;
        content := v_column.content;
        return next;
    end loop;
end;
$$;

comment on function pgq._trigger_magic(oid) is
    'The columns of a table that are fields of the event: which argument of insert_event after the log, and SQL over a row r.';
revoke execute on function pgq._trigger_magic(oid) from public;
grant execute on function pgq._trigger_magic(oid) to public;
