-- A change of a label or an attribute changes how existing values are written, without an event.
create or replace function sluice._type_definition(type_id oid)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_first_of_users constant oid := 16384; -- FirstNormalObjectId: objects created by initdb have lower OIDs
    v_type record;
begin
    if type_id < v_first_of_users then
        return null;
    end if;
    select t.typtype, t.typbasetype, t.typcategory, t.typelem, t.typrelid
    into v_type
    from pg_type as t
    where t.oid = type_id;
    case v_type.typtype
        when 'e' then
            return (
                select 'enum ' || json_agg(e.enumlabel order by e.enumsortorder)
                from pg_enum as e
                where e.enumtypid = type_id
            );
        when 'd' then
            return sluice._type_definition(v_type.typbasetype);
        when 'c' then
            return (
                select 'composite ' || json_agg(
                    json_build_array(a.attname, format_type(a.atttypid, a.atttypmod), sluice._type_definition(a.atttypid))
                    order by a.attnum
                )
                from pg_attribute as a
                where a.attrelid = v_type.typrelid
                  and a.attnum > 0
                  and not a.attisdropped
            );
        when 'r', 'm' then
            return (
                select sluice._type_definition(r.rngsubtype)
                from pg_range as r
                where type_id in (r.rngtypid, r.rngmultitypid)
            );
        else
            return case when v_type.typcategory = 'A' then sluice._type_definition(v_type.typelem) end;
    end case;
end;
$$;

comment on function sluice._type_definition(oid) is
    'Return what a type that is not built in consists of: labels, or attributes and their types; null for others.';
revoke execute on function sluice._type_definition(oid) from public;
grant execute on function sluice._type_definition(oid) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
