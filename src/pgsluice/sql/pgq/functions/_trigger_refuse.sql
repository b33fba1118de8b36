create or replace function pgq._trigger_refuse(problem text, hint text, table_name text, queue_name text)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using
        errcode = 'PQ007',
        message = problem,
        detail = format('Changes of table %s go to event log %L.', table_name, queue_name),
        hint = hint;
end;
$$;

comment on function pgq._trigger_refuse(text, text, text, text) is
    'Raise an error for a change of a table that has a trigger for a log.';
revoke execute on function pgq._trigger_refuse(text, text, text, text) from public;
grant execute on function pgq._trigger_refuse(text, text, text, text) to public;
