-- Reads: the catalog.
create or replace function pgmq._missing_reader(queue_name text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Without a table, raise the error of any call: the relation does not exist.
    execute format('select from pgmq.%I limit 0', pgmq.format_table_name(queue_name, 'q'));
    raise exception using
        errcode = 'QU003',
        message = format('queue %L has a table, but no function that reads it', queue_name),
        detail = 'The table was not created by pgmq.create.',
        hint = format('call pgmq.create(%L): it creates what is missing and keeps the messages', queue_name);
end;
$$;

comment on function pgmq._missing_reader(text) is
    'Raise the error of a queue without a table, or of one without a function that reads it.';
revoke execute on function pgmq._missing_reader(text) from public;
grant execute on function pgmq._missing_reader(text) to sluice_admin, sluice_reader;
