-- With the rights of the reader's owner: see pgmq._outdated_readers.
create or replace function pgmq._drop_reader(queue_name text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text := pgmq.format_table_name(queue_name, 'q');
begin
    if to_regclass(format('pgmq.%I', v_queue)) is not null then
        raise exception using
            errcode = 'object_in_use',
            message = format('the reader of queue %L is not dropped: the queue exists', queue_name),
            hint = format('call pgmq.drop_queue(%L) to drop both', queue_name);
    end if;
    execute format(
        'drop function if exists pgmq.%I(timestamptz, interval, integer, jsonb, boolean)', v_queue
    );
end;
$$;

comment on function pgmq._drop_reader(text) is
    'Drop the function that reads a queue, once its table is gone.';
revoke execute on function pgmq._drop_reader(text) from public;
grant execute on function pgmq._drop_reader(text) to sluice_admin;
