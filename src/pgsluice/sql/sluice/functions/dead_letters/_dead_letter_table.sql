create or replace function sluice._dead_letter_table(consumer_name text)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
return case when consumer_name is null then 'dead_letter_message' else 'dead_letter_event' end;

comment on function sluice._dead_letter_table(text) is
    'Return the table of schema sluice that has the dead letters of a queue (null) or of a share group or consumer.';
revoke execute on function sluice._dead_letter_table(text) from public;
grant execute on function sluice._dead_letter_table(text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
