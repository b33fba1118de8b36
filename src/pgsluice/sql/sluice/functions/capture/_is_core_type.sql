-- row_to_json converts a value of a user-defined type with the type's cast to json, if it has one, and runs the cast's
-- function with the rights of the caller of row_to_json. Built-in types have no such cast.
create or replace function sluice._is_core_type(type_id oid)
returns boolean
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_first_of_users constant oid := 16384; -- FirstNormalObjectId: objects created by initdb have lower OIDs
    v_type record;
begin
    while type_id >= v_first_of_users
    loop
        select t.typtype, t.typbasetype, t.typcategory, t.typelem
        into v_type
        from pg_type as t
        where t.oid = type_id;
        -- Created after the snapshot of the transaction.
        if not found then
            return false;
        end if;
        -- Resolve a domain to its base type and an array to its element type.
        type_id := case
            when v_type.typtype = 'd' then v_type.typbasetype
            when v_type.typcategory = 'A' then v_type.typelem
        end;
    end loop;
    return type_id is not null;
end;
$$;

comment on function sluice._is_core_type(oid) is
    'True if a type is built into PostgreSQL, or is a domain over or an array of such a type.';
revoke execute on function sluice._is_core_type(oid) from public;
grant execute on function sluice._is_core_type(oid) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
