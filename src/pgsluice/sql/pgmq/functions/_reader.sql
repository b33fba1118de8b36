-- Inlined, as format_table_name, whose error _missing_reader raises. Reads: the catalog.
create or replace function pgmq._reader(queue_name text)
returns text
language sql
stable
return case
    when to_regproc(format('pgmq.%I', lower('q_' || queue_name))) is null then pgmq._missing_reader(queue_name)
    else lower('q_' || queue_name)
end;

comment on function pgmq._reader(text) is
    'Return the name of the function that reads a queue (see pgmq._create_reader); raise an error if there is none.';
revoke execute on function pgmq._reader(text) from public;
grant execute on function pgmq._reader(text) to sluice_admin, sluice_reader;
