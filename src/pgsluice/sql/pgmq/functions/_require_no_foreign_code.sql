-- Called before rows of a queue are written with the rights of the schemas' owner. Calls: pgmq._foreign_code.
create or replace function pgmq._require_no_foreign_code(queue_table regclass)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_code text := pgmq._foreign_code(queue_table);
begin
    if v_code is not null then
        raise exception using
            errcode = 'object_not_in_prerequisite_state',
            message = format('cannot move rows of %s: they would run code of an untrusted role', queue_table),
            detail = format('It has %s.', v_code),
            hint = 'drop it, or give its function to a superuser or to the owner of the schemas';
    end if;
end;
$$;

comment on function pgmq._require_no_foreign_code(regclass) is
    'Raise an error if writing rows of a table would run code of an untrusted role.';
revoke execute on function pgmq._require_no_foreign_code(regclass) from public;
grant execute on function pgmq._require_no_foreign_code(regclass) to sluice_admin;
