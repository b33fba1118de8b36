/*
 * read_ct stays, because it is the fencing token. So that the claim counts no attempt, a record is written where it would
 * count: if its start was recorded, or if it is the first one, which counts without a record.
 *
 * Calls: sluice._tried_messages, sluice._settle_tried. Writes: the queue, sluice.attempt.
 */
create or replace function sluice.release_uncounted(
    queue_name text, msg_ids bigint[], read_cts integer[], delay double precision default 0,
    enqueued_ats timestamptz[] default null
)
returns table (msg_id bigint, outcome text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_visible_at timestamptz := clock_timestamp() + make_interval(secs => delay);
    v_message sluice.tried_message;
    v_tried sluice.tried_message[];
begin
    for v_message in
        select t.* from sluice._tried_messages(queue_name, msg_ids, read_cts, enqueued_ats, null::integer) as t
    loop
        if v_message.outcome = 'done' and v_message.is_noted and v_message.noted_state = 'failed' then
            v_message.outcome := 'stale'; -- settled, and keeps its back-off
        elsif v_message.outcome = 'done' and v_message.is_noted and v_message.noted_state = 'begun' then
            v_message.note := 'released';
            v_message.visible_at := v_visible_at;
        elsif v_message.outcome = 'done' and not v_message.is_noted then
            v_message.note := case when v_message.read_ct <= 1 then 'released' end;
            v_message.visible_at := v_visible_at;
        end if;
        v_tried := v_tried || v_message;
    end loop;
    perform sluice._settle_tried(queue_name, v_tried);
    return query select t.msg_id, t.outcome from unnest(v_tried) as t;
end;
$$;

comment on function sluice.release_uncounted(text, bigint[], integer[], double precision, timestamptz[]) is
    'Release claimed messages, visible after delay seconds, without counting an attempt; returns for each claim, in order: done, stale (claimed again or failed since) or gone (not in the queue, or its message has another enqueued_at than the given one).';
revoke execute on function sluice.release_uncounted(text, bigint[], integer[], double precision, timestamptz[]) from public;
grant execute on function sluice.release_uncounted(text, bigint[], integer[], double precision, timestamptz[]) to sluice_admin, sluice_reader;
