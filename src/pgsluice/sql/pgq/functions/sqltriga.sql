create or replace function pgq.sqltriga()
returns trigger
language plpgsql
as $$
begin
    if pgq._trigger_fire(
        'statement', tg_op, tg_when, tg_level, tg_relid, array[tg_table_schema, tg_table_name]::text[], tg_argv, old, new
    ) then
        return coalesce(new, old);
    end if;
    return null;
end;
$$;

comment on function pgq.sqltriga() is
    'Trigger function: append each change of a row to the event log named by its first argument, as SQL fragments.';
revoke execute on function pgq.sqltriga() from public;
grant execute on function pgq.sqltriga() to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
