-- The owner of the trigger function reads the rows of a partition before its TRUNCATE.
create or replace function sluice._let_capture_read(relation regclass)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schema constant regnamespace := (select c.relnamespace from pg_class as c where c.oid = relation);
    v_reader constant regrole := (
        select p.proowner from pg_proc as p where p.oid = 'sluice.capture_changes()'::regprocedure
    );
begin
    if not has_schema_privilege(v_reader, v_schema, 'usage') then
        execute format('grant usage on schema %s to %s', v_schema, v_reader);
    end if;
    if not has_table_privilege(v_reader, relation, 'select') then
        execute format('grant select on %s to %s', relation, v_reader);
    end if;
    -- A grant by a role that may not make it can be a mere warning.
    if not has_schema_privilege(v_reader, v_schema, 'usage') or not has_table_privilege(v_reader, relation, 'select') then
        raise insufficient_privilege using message = format('permission denied for table %s', relation);
    end if;
exception
    when insufficient_privilege then
        raise exception using
            errcode = '42501',
            message = format('%s may not read partition %s, so its TRUNCATE cannot be captured', v_reader, relation),
            hint = format(
                'run as their owner: grant usage on schema %s to %s; grant select on %s to %s',
                v_schema, v_reader, relation, v_reader
            );
end;
$$;

comment on function sluice._let_capture_read(regclass) is
    'Grant the owner of the capture''s triggers the right to read a partition; raise an error if the caller may not.';
revoke execute on function sluice._let_capture_read(regclass) from public;
grant execute on function sluice._let_capture_read(regclass) to pgq_admin, sluice_admin;
