/*
 * failures is a list of objects: msg_id and read_ct name the claim; enqueued_at, if given, is that of the message; reject: do not retry; delay: seconds until the retry,
 * instead of the back-off; delay_min: at least this delay; reason, error_type, error and trace are stored with it.
 *
 * Idempotent: repeated after a lost reply, it changes nothing and returns the same outcomes, unless the message was claimed
 * since or its dead letter redriven.
 *
 * Calls: sluice._tried_messages, sluice._settle_tried, sluice._retry_settings, sluice._decide. Writes: the queue,
 * sluice.attempt, sluice.dead_letter.
 */
create or replace function sluice.fail(queue_name text, failures jsonb, worker text default null, policy jsonb default null)
returns table (msg_id bigint, outcome text, attempt integer, delay double precision)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_policy sluice.retry_policy := sluice._retry_settings(queue_name, policy);
    v_now constant timestamptz := clock_timestamp();
    v_msg_ids bigint[];
    v_read_cts integer[];
    v_enqueued_ats timestamptz[];
    v_failure record;
    v_message sluice.tried_message;
    v_tried sluice.tried_message[];
begin
    select array_agg(f.msg_id order by f.position), array_agg(f.read_ct order by f.position),
        array_agg(f.enqueued_at order by f.position)
    into v_msg_ids, v_read_cts, v_enqueued_ats
    from rows from (jsonb_to_recordset(failures) as (msg_id bigint, read_ct integer, enqueued_at timestamptz))
        with ordinality as f (msg_id, read_ct, enqueued_at, position);

    v_tried := array(
        select t
        from sluice._tried_messages(queue_name, v_msg_ids, v_read_cts, v_enqueued_ats, v_policy.max_attempts) as t
        order by t.position
    );
    for v_failure in
        select f.*
        from rows from (jsonb_to_recordset(failures) as (
            read_ct integer, enqueued_at timestamptz, reject boolean, reason text, error_type text, error text, trace text
        )) with ordinality as f (read_ct, enqueued_at, is_rejected, reason, error_type, error, trace, position)
        order by f.position
    loop
        v_message := v_tried[v_failure.position];
        if v_message.outcome = 'gone' then
            v_message.attempts := null;
            select 'dead', d.attempts
            into v_message.outcome, v_message.attempts
            from sluice.dead_letter_message as d
            where lower(d.queue_name) = lower(fail.queue_name)
              and d.msg_id = v_message.msg_id
              and d.read_ct = v_failure.read_ct
              and (d.enqueued_at = v_failure.enqueued_at or v_failure.enqueued_at is null)
            order by d.dead_letter_id desc
            limit 1;
            v_message.outcome := coalesce(v_message.outcome, 'gone');
        elsif v_message.outcome = 'stale' or (v_message.is_noted and v_message.noted_state = 'released') then
            v_message.outcome := 'stale';
            v_message.attempts := null;
        elsif v_message.is_noted and v_message.noted_state = 'failed' then
            v_message.outcome := 'retry';
            v_message.attempts := v_message.attempts + 1;
        else
            v_message.attempts := v_message.attempts + 1;
            v_message.first_failed_at := coalesce(v_message.first_failed_at, v_now);
            v_message.last_failed_at := v_now;
            v_message.error_type := v_failure.error_type;
            v_message.error := v_failure.error;
            v_message.trace := v_failure.trace;
            v_message.worker := worker;
            if not coalesce(v_failure.is_rejected, false) then
                v_message.error := coalesce(v_failure.error, v_failure.reason);
            end if;
            select d.outcome, d.reason, v_now + d.delay
            into v_message.outcome, v_message.reason, v_message.visible_at
            from sluice._decide(v_policy, v_message.attempts, false, failures -> (v_failure.position - 1)::integer) as d;
            v_message.note := case v_message.outcome when 'dead' then 'dead' else 'failed' end;
        end if;
        v_tried[v_failure.position] := v_message;
    end loop;
    perform sluice._settle_tried(queue_name, v_tried);
    return query
        select t.msg_id, t.outcome, t.attempts, extract(epoch from t.visible_at - v_now)::double precision
        from unnest(v_tried) as t;
end;
$$;

comment on function sluice.fail(text, jsonb, text, jsonb) is
    'Settle claimed messages whose handlers failed; returns for each, in order: retry (visible again after the back-off or its delay, in seconds) or dead (rejected, or the last attempt: dead-lettered), with the number of the attempt; stale (claimed again or released since) or gone.';
revoke execute on function sluice.fail(text, jsonb, text, jsonb) from public;
grant execute on function sluice.fail(text, jsonb, text, jsonb) to sluice_admin, sluice_reader;
