-- Functions that change a queue's tables run with the rights of the schemas' owner, so that role must own the tables.
create or replace function pgmq._require_own_table(queue_table text)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_owner name;
begin
    select pg_get_userbyid(c.relowner)
    into v_owner
    from pg_class as c
    where c.relnamespace = 'pgmq'::regnamespace
      and c.relname = queue_table::name
      and c.relkind in ('r', 'p')
      and not pg_has_role(c.relowner, 'usage');
    if found then
        raise exception using
            errcode = 'insufficient_privilege',
            message = format('table pgmq.%I belongs to %I and not to %I', queue_table, v_owner, current_user),
            detail = 'Queue tables are changed with the rights of the owner of the schemas.',
            hint = format('alter table pgmq.%I owner to %I', queue_table, current_user);
    end if;
end;
$$;

comment on function pgmq._require_own_table(text) is
    'Raise an error if a table of a queue belongs to a role whose rights the current one does not have.';
revoke execute on function pgmq._require_own_table(text) from public;
grant execute on function pgmq._require_own_table(text) to sluice_admin;
