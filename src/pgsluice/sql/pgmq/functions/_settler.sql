-- Inlined, as pgmq._reader. Reads: the catalog.
create or replace function pgmq._settler(queue_name text)
returns text
language sql
stable
return case
    when has_function_privilege(
        to_regprocedure(format('pgmq.%I(bigint, integer, timestamptz, boolean)', lower('a_' || queue_name)))::oid, 'execute'
    )
        then lower('a_' || queue_name)
end;

comment on function pgmq._settler(text) is
    'Return the name of the function that deletes or archives one message of a queue (see pgmq._outdated_readers); null if there is none that the caller may execute, as for partitioned queues.';
revoke execute on function pgmq._settler(text) from public;
grant execute on function pgmq._settler(text) to sluice_admin, sluice_reader;
