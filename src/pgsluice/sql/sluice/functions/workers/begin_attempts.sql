/*
 * Called for claims before their handlers start, and committed, so that a message that kills its process is dead-lettered
 * after max_attempts starts. The first claim of a message need not be recorded (../retries/README.md).
 *
 * Calls: sluice._tried_messages, sluice._settle_tried, sluice._retry_settings. Writes: sluice.attempt; for dead letters: the
 * queue, sluice.dead_letter.
 */
create or replace function sluice.begin_attempts(
    queue_name text, msg_ids bigint[], read_cts integer[], worker text, max_attempts integer default null,
    enqueued_ats timestamptz[] default null
)
returns table (msg_id bigint, attempt integer, outcome text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_policy sluice.retry_policy := sluice._retry_settings(
        queue_name, jsonb_build_object('max_attempts', begin_attempts.max_attempts)
    );
    v_message sluice.tried_message;
    v_tried sluice.tried_message[];
begin
    for v_message in
        select t.* from sluice._tried_messages(queue_name, msg_ids, read_cts, enqueued_ats, v_policy.max_attempts) as t
    loop
        if v_message.outcome <> 'done' or (v_message.is_noted and v_message.noted_state <> 'begun') then
            v_message.outcome := 'lost';
            v_message.attempts := null;
        elsif v_message.is_noted then
            v_message.outcome := 'begun';
            v_message.attempts := v_message.attempts + 1;
        else
            if v_message.noted_state = 'begun' then
                -- Without an outcome: the process died, or its claim expired while the handler ran.
                v_message.first_failed_at := coalesce(v_message.first_failed_at, v_message.noted_claimed_at);
                v_message.last_failed_at := v_message.noted_claimed_at;
            end if;
            if not sluice._is_last(v_message.attempts, v_policy.max_attempts, null::integer, null::integer) then
                v_message.outcome := 'begun';
                v_message.attempts := v_message.attempts + 1;
                v_message.note := 'begun';
                v_message.worker := worker;
            else
                v_message.outcome := 'dead';
                v_message.note := 'dead';
                v_message.reason := case v_message.noted_state
                    when 'begun' then 'delivered too often without an outcome'
                    else 'too many attempts'
                end;
            end if;
        end if;
        v_tried := v_tried || v_message;
    end loop;
    perform sluice._settle_tried(queue_name, v_tried);
    return query select t.msg_id, t.attempts, t.outcome from unnest(v_tried) as t;
end;
$$;

comment on function sluice.begin_attempts(text, bigint[], integer[], text, integer, timestamptz[]) is
    'Record that handlers of claimed messages start; returns for each claim, in order: begun with the number of the attempt, dead (all attempts started without an outcome: dead-lettered) or lost (the claim is no longer current, or its message has another enqueued_at than the given one). Idempotent per claim.';
revoke execute on function sluice.begin_attempts(text, bigint[], integer[], text, integer, timestamptz[]) from public;
grant execute on function sluice.begin_attempts(text, bigint[], integer[], text, integer, timestamptz[]) to sluice_admin, sluice_reader;
