create or replace function pgmq.read_grouped(queue_name text, vt integer, qty integer)
returns setof pgmq.message_record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq._read_groups(pgmq.format_table_name(queue_name, 'q'), vt, qty, 'fill');
end;
$$;

comment on function pgmq.read_grouped(text, integer, integer) is
    'Read up to qty messages of FIFO groups, the group with the oldest head first and each group in msg_id order, and hide them for vt seconds.';
revoke execute on function pgmq.read_grouped(text, integer, integer) from public;
grant execute on function pgmq.read_grouped(text, integer, integer) to sluice_admin, sluice_reader;
