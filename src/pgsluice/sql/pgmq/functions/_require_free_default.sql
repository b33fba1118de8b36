-- Two transactions that create 'x' with partitions and 'x_default' lock in the same order here, so they cannot
-- deadlock.
create or replace function pgmq._require_free_default(queue_name text, table_names text[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_table text;
begin
    perform pgmq.acquire_queue_lock(queue_name || '_default');
    foreach v_table in array table_names
    loop
        if to_regclass(format('pgmq.%I', v_table || '_default')) is not null then
            raise exception using
                errcode = 'QU002',
                message = format(
                    'the default partition of queue %L would share its table with queue %L', queue_name, queue_name || '_default'
                ),
                detail = format('There is a table pgmq.%I.', v_table || '_default'),
                hint = 'choose another name for the partitioned queue';
        end if;
    end loop;
end;
$$;

comment on function pgmq._require_free_default(text, text[]) is
    'Raise an error if another queue has the name of a default partition of these tables.';
revoke execute on function pgmq._require_free_default(text, text[]) from public;
grant execute on function pgmq._require_free_default(text, text[]) to sluice_admin;
