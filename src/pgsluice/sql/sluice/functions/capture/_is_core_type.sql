-- row_to_json turns a value of a type that somebody made into JSON by that type's cast to json, if it has one, and runs
-- the cast's function with the rights of whoever runs row_to_json. PostgreSQL's own types have none.
create or replace function sluice._is_core_type(type_id oid)
returns boolean
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_first_of_users constant oid := 16384; -- FirstNormalObjectId: initdb gives what PostgreSQL brings lower ones
    v_type record;
begin
    while type_id >= v_first_of_users
    loop
        select t.typtype, t.typbasetype, t.typcategory, t.typelem
        into strict v_type
        from pg_type as t
        where t.oid = type_id;
        -- Of a domain the base type counts, of an array the type of its elements.
        type_id := case
            when v_type.typtype = 'd' then v_type.typbasetype
            when v_type.typcategory = 'A' then v_type.typelem
        end;
    end loop;
    return type_id is not null;
end;
$$;

comment on function sluice._is_core_type(oid) is
    'Whether a type is one of PostgreSQL''s own, or a domain or an array of one.';
revoke execute on function sluice._is_core_type(oid) from public;
grant execute on function sluice._is_core_type(oid) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
