-- Called before rows of a queue are written with rights that its users do not have: those of the schemas' owner, or of
-- the role that runs maintenance. Calls: pgmq._foreign_code.
create or replace function pgmq._require_no_foreign_code(queue_table regclass)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_code text;
begin
    -- Most tables belong to the owner of the schemas, who alone adds expressions, and have no trigger. The full search
    -- takes milliseconds, and maintenance calls this for each table.
    if exists (
        select
        from pg_class as c
        join pg_namespace as n on n.oid = c.relnamespace and n.nspowner = c.relowner
        where c.oid = queue_table
          and c.relkind = 'r' and not c.relhastriggers and not c.relhasrules and not c.relrowsecurity
    ) then
        return;
    end if;
    v_code := pgmq._foreign_code(queue_table);
    if v_code is not null then
        raise exception using
            errcode = 'object_not_in_prerequisite_state',
            message = format('cannot write rows of %s: they would run code of an untrusted role', queue_table),
            detail = format('It has %s.', v_code),
            hint = 'drop it, or give its function to a superuser or to the owner of the schemas';
    end if;
end;
$$;

comment on function pgmq._require_no_foreign_code(regclass) is
    'Raise an error if writing rows of a table would run code of an untrusted role.';
revoke execute on function pgmq._require_no_foreign_code(regclass) from public;
grant execute on function pgmq._require_no_foreign_code(regclass) to sluice_admin;
