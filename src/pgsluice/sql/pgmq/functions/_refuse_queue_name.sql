-- Immutable as format_table_name, which could not be inlined otherwise.
create or replace function pgmq._refuse_queue_name(queue_name text)
returns text
language plpgsql
immutable
parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using
        datatype = 'QU001',
        message = E'queue name contains invalid characters: $, ;, --, or \\''',
        detail = format('The name is %L.', queue_name),
        hint = 'use letters, digits and underscores';
end;
$$;

comment on function pgmq._refuse_queue_name(text) is
    'Raise the error of a queue name with invalid characters.';
revoke execute on function pgmq._refuse_queue_name(text) from public;
grant execute on function pgmq._refuse_queue_name(text) to sluice_admin, sluice_writer, sluice_reader, sluice_monitor;
