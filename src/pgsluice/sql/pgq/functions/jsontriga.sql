create or replace function pgq.jsontriga()
returns trigger
language plpgsql
as $$
begin
    if pgq._trigger_fire(
        'json', tg_op, tg_when, tg_level, tg_relid, array[tg_table_schema, tg_table_name]::text[], tg_argv, old, new
    ) then
        return coalesce(new, old);
    end if;
    return null;
end;
$$;

comment on function pgq.jsontriga() is
    'Trigger function: append each change of a row to the event log named by its first argument, as JSON.';
revoke execute on function pgq.jsontriga() from public;
grant execute on function pgq.jsontriga() to pgq_admin, pgq_writer, sluice_admin, sluice_writer;
