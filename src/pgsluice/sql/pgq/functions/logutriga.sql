create or replace function pgq.logutriga()
returns trigger
language plpgsql
as $$
begin
    if pgq._trigger_fire(
        'urlencoded', tg_op, tg_when, tg_level, tg_relid, array[tg_table_schema, tg_table_name]::text[], tg_argv, old, new
    ) then
        return coalesce(new, old);
    end if;
    return null;
end;
$$;

comment on function pgq.logutriga() is
    'Trigger function: append each change of a row to the event log named by its first argument, as form fields.';
revoke execute on function pgq.logutriga() from public;
grant execute on function pgq.logutriga() to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
