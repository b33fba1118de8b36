-- README.md has what counts as done and as failed.
--
-- Calls: pgmq.send, sluice._await_predecessors.
create or replace function sluice.send_after(
    queue_name text, msg jsonb, after_queues text[], after_msg_ids bigint[], headers jsonb default null,
    delay timestamptz default null, after_failure text default 'fail'
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_visible_at constant timestamptz := coalesce(delay, clock_timestamp());
    v_msg_id bigint;
begin
    if cardinality(after_queues) = 0 and cardinality(after_msg_ids) = 0 then
        return pgmq.send(queue_name, msg, headers, v_visible_at);
    end if;
    v_msg_id := pgmq.send(queue_name, msg, headers, 'infinity'::timestamptz);
    perform sluice._await_predecessors(queue_name, v_msg_id, after_queues, after_msg_ids, v_visible_at, after_failure);
    return v_msg_id;
end;
$$;

comment on function sluice.send_after(text, jsonb, text[], bigint[], jsonb, timestamptz, text) is
    'Append one message that becomes visible when all others are done, each named by its queue and msg_id, and not before the time delay. If one of them is dead-lettered, so is this message (after_failure fail), or it runs nevertheless (continue). Returns its msg_id.';
revoke execute on function sluice.send_after(text, jsonb, text[], bigint[], jsonb, timestamptz, text) from public;
grant execute on function sluice.send_after(text, jsonb, text[], bigint[], jsonb, timestamptz, text) to sluice_admin, sluice_writer;
