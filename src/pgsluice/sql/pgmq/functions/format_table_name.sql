-- Without a pinned search_path, so that the planner inlines it into each call. The body was parsed at creation: the
-- search path cannot change what it calls.
create or replace function pgmq.format_table_name(queue_name text, prefix text)
returns text
language sql
immutable
parallel safe
return case
    when queue_name ~ E'\\$|;|--|''' then pgmq._refuse_queue_name(queue_name)
    else lower(prefix || '_' || queue_name)
end;

comment on function pgmq.format_table_name(text, text) is
    'Return the table name of a queue: prefix q for the queue, a for its archive; folded to lower case.';
revoke execute on function pgmq.format_table_name(text, text) from public;
grant execute on function pgmq.format_table_name(text, text) to sluice_admin, sluice_writer, sluice_reader, sluice_monitor;
