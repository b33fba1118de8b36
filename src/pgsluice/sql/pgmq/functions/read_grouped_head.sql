create or replace function pgmq.read_grouped_head(queue_name text, vt integer, qty integer)
returns setof pgmq.message_record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from pgmq._read_groups(pgmq.format_table_name(queue_name, 'q'), vt, qty, 'head');
end;
$$;

comment on function pgmq.read_grouped_head(text, integer, integer) is
    'Read the first message of up to qty FIFO groups and hide them for vt seconds.';
revoke execute on function pgmq.read_grouped_head(text, integer, integer) from public;
grant execute on function pgmq.read_grouped_head(text, integer, integer) to sluice_admin, sluice_reader;
