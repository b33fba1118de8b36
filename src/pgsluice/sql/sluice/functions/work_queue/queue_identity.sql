-- A queue that is dropped and created again has the name, but neither the limits nor the topics of its predecessor.
--
-- Calls: pgmq.format_table_name.
create or replace function sluice.queue_identity(queue_name text, expected oid default null)
returns oid
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_identity constant oid := format('pgmq.%I', pgmq.format_table_name(queue_name, 'q'))::regclass::oid;
begin
    if v_identity <> expected then
        raise exception using
            errcode = 'QU005',
            message = format('queue "%s" was dropped and created again', queue_name),
            hint = 'declare its limits and topics again';
    end if;
    return v_identity;
end;
$$;

comment on function sluice.queue_identity(text, oid) is
    'Return a number that is another one when a queue is dropped and created again. An error if it is not the expected one.';
revoke execute on function sluice.queue_identity(text, oid) from public;
grant execute on function sluice.queue_identity(text, oid) to sluice_admin, sluice_reader;
