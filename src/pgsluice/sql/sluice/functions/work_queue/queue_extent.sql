-- The highest msg_id bounds a later sluice.purge_messages: messages sent after this call have higher ones. Of a later call,
-- the bound leaves out the messages that were sent meanwhile; it counts 10,000 of them.
create or replace function sluice.queue_extent(
    queue_name text, upto_msg_id bigint default null, out message_count bigint, out last_msg_id bigint
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_table text := pgmq.format_table_name(queue_name, 'q');
    v_later bigint;
begin
    select s.length into message_count from sluice._queue_state(sluice._registered_name(queue_name)) as s;
    execute format('select max(m.msg_id) from pgmq.%I as m where m.msg_id <= $1', v_table)
    using coalesce(upto_msg_id, 9223372036854775807)
    into last_msg_id;
    execute format('select count(*) from (select from pgmq.%I as m where m.msg_id > $1 limit 10000) as later', v_table)
    using upto_msg_id
    into v_later;
    message_count := greatest(message_count - v_later, (last_msg_id is not null)::integer);
end;
$$;

comment on function sluice.queue_extent(text, bigint) is
    'Return the number of messages in a queue, an estimate above 5,000, and the highest msg_id, null without messages: of all, or of those up to a msg_id.';
revoke execute on function sluice.queue_extent(text, bigint) from public;
grant execute on function sluice.queue_extent(text, bigint) to sluice_admin, sluice_reader;
