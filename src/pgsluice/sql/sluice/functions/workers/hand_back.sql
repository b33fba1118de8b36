/*
 * read_ct stays: it is the fence. So that the claim does not count, it is noted where it would: if its start was noted, or if it
 * is the first one, which counts without a note.
 *
 * Calls: sluice._tried_messages, sluice._settle_tried. Writes: the queue, sluice.attempt.
 */
create or replace function sluice.hand_back(
    queue_name text, msg_ids bigint[], read_cts integer[], delay double precision default 0
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
        select t.* from sluice._tried_messages(queue_name, msg_ids, read_cts, null::integer) as t
    loop
        if v_message.outcome = 'done' and v_message.is_noted and v_message.noted_state = 'failed' then
            v_message.outcome := 'stale'; -- settled, and its pause stays
        elsif v_message.outcome = 'done' and v_message.is_noted and v_message.noted_state = 'begun' then
            v_message.note := 'handed back';
            v_message.visible_at := v_visible_at;
        elsif v_message.outcome = 'done' and not v_message.is_noted then
            v_message.note := case when v_message.read_ct <= 1 then 'handed back' end;
            v_message.visible_at := v_visible_at;
        end if;
        v_tried := v_tried || v_message;
    end loop;
    perform sluice._settle_tried(queue_name, v_tried);
    return query select t.msg_id, t.outcome from unnest(v_tried) as t;
end;
$$;

comment on function sluice.hand_back(text, bigint[], integer[], double precision) is
    'Give claimed messages back, visible after delay seconds, as if this claim had not been: it counts as no attempt; says of each claim, in their order: done, stale (claimed again or failed since) or gone (not in the queue).';
revoke execute on function sluice.hand_back(text, bigint[], integer[], double precision) from public;
grant execute on function sluice.hand_back(text, bigint[], integer[], double precision) to sluice_admin, sluice_reader;
