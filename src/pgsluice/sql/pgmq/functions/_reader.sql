-- Reads: the catalog.
create or replace function pgmq._reader(queue_name text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text := pgmq.format_table_name(queue_name, 'q');
begin
    if to_regproc(format('pgmq.%I', v_queue)) is null then
        -- Without a table, raise the error of any call: the relation does not exist.
        execute format('select from pgmq.%I limit 0', v_queue);
        raise exception using
            errcode = 'QU003',
            message = format('queue %L has a table, but no function that reads it', queue_name),
            detail = 'The table was not created by pgmq.create.',
            hint = format('call pgmq.create(%L): it creates what is missing and keeps the messages', queue_name);
    end if;
    return v_queue;
end;
$$;

comment on function pgmq._reader(text) is
    'Return the name of the function that reads a queue (see pgmq._create_reader); raise an error if there is none.';
revoke execute on function pgmq._reader(text) from public;
grant execute on function pgmq._reader(text) to sluice_admin, sluice_reader;
