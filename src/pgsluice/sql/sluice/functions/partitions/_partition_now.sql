-- The current position of the table: the last id of its queue, or the time. Reads: the queue's sequence.
create or replace function sluice._partition_now(queue_name text, is_time boolean)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now bigint;
begin
    if is_time then
        return extract(epoch from clock_timestamp()) * 1000000;
    end if;
    execute format(
        'select case when ids.is_called then ids.last_value else 0 end from pgmq.%I as ids',
        pgmq.format_table_name(queue_name, 'q') || '_msg_id_seq'
    )
    into v_now;
    return v_now;
end;
$$;

comment on function sluice._partition_now(text, boolean) is
    'Return the position of a message sent now.';
revoke execute on function sluice._partition_now(text, boolean) from public;
grant execute on function sluice._partition_now(text, boolean) to sluice_admin;
