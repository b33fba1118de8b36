create or replace function pgq._trigger_magic(fields text[], names text[], contents text[], magic boolean[])
returns text[]
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    c_names constant text[] := array[
        '_pgq_ev_type', '_pgq_ev_data', '_pgq_ev_extra1', '_pgq_ev_extra2', '_pgq_ev_extra3', '_pgq_ev_extra4'
    ];
    v_field integer;
begin
    for v_column in 1..cardinality(names)
    loop
        if not magic[v_column] then
            continue;
        end if;
        v_field := array_position(c_names, names[v_column]);
        if v_field is null then
            raise exception using
                errcode = 'PQ007',
                message = format('Unknown magic column: %s', names[v_column]),
                detail = 'A column whose name begins with _pgq_ev_ is a field of the event.',
                hint = 'name it _pgq_ev_type, _pgq_ev_data or _pgq_ev_extra1 to _pgq_ev_extra4, or begin it otherwise';
        end if;
        fields[v_field] := contents[v_column];
    end loop;
    return fields;
end;
$$;

comment on function pgq._trigger_magic(text[], text[], text[], boolean[]) is
    'The fields of an event, those that have a column of their own taken from it.';
revoke execute on function pgq._trigger_magic(text[], text[], text[], boolean[]) from public;
grant execute on function pgq._trigger_magic(text[], text[], text[], boolean[]) to public;
