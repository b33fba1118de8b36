-- Calls: sluice._explain_poison, sluice._explain_claims, sluice._explain_key, sluice._count_ahead, sluice._explain_workers, sluice.list_workers.
create or replace function sluice._explain_message_reason(i_queue_name text, i_found jsonb, i_may_read boolean)
returns table (at timestamptz, fact text, detail jsonb)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    m record;
    v_policy sluice.retry_policy := sluice._retry_settings(i_queue_name, null::jsonb);
    v_ahead bigint;
    v_reasons bigint;
begin
    select r.*
    into m
    from jsonb_to_record(i_found) as r (
        msg_id bigint, state text, vt timestamptz, last_read_at timestamptz, read_ct integer, attempts integer, attempt_state text,
        attempt_is_current boolean, worker text, reason text, locked_by integer, key text
    );
    if m.locked_by is not null then
        return query values (
            null::timestamptz,
            format('An open transaction has locked or changed it: that of %s', sluice._session(m.locked_by)),
            jsonb_build_object('cause', 'row locked', 'pid', m.locked_by)
        );
    end if;
    if m.state in ('ready', 'in flight', 'retrying', 'released') then
        return query select p.* from sluice._explain_poison(i_queue_name, m.msg_id) as p;
    end if;
    if m.state in ('delayed', 'released') and m.vt = 'infinity' then
        return query values (null::timestamptz, 'Its delay has no end', '{"cause": "delay"}'::jsonb);
    elsif m.state = 'delayed' then
        return query values (m.vt, 'Its delay ends', '{"cause": "delay"}'::jsonb);
    elsif m.state = 'retrying' then
        return query values (
            m.vt, format('It failed; its back-off before attempt %s of %s ends', m.attempts + 1, v_policy.max_attempts),
            '{"cause": "back-off"}'::jsonb
        );
    elsif m.state = 'released' then
        return query values (m.vt, 'It was released, and its delay ends', '{"cause": "delay"}'::jsonb);
    elsif m.state = 'in flight' and m.vt >= '9000-01-01 00:00:00+00' then
        return query
            select b.claimed_at, format('Micro-batch %s of stream %s has claimed it', b.seq, s.stream_name),
                jsonb_build_object('cause', 'stream', 'stream_name', s.stream_name)
            from sluice.queue_stream_batch as b
            join sluice.queue_stream as s on s.stream_id = b.stream_id
            where b.mark = m.vt;
    elsif m.state = 'in flight' then
        return query values (
            m.vt,
            case
                when m.attempt_is_current and m.attempt_state = 'begun' then format('Worker %s runs it; its lease ends', m.worker)
                else 'It is claimed; its lease ends'
            end,
            jsonb_build_object('cause', 'lease', 'worker', case when m.attempt_is_current then m.worker end)
        );
        return query
            select (c.call ->> 'since')::timestamptz,
                format(
                    'Handler %s runs it in worker %s on host %s, pid %s%s, since', c.call ->> 'handler', w.app, w.host, w.pid,
                    case when not w.is_live then ', which is not live any more' end
                ),
                jsonb_build_object('cause', 'running', 'worker', w.worker_id, 'is_live', w.is_live)
            from sluice.list_workers() as w
            cross join jsonb_array_elements(w.running) as c (call)
            where lower(c.call ->> 'queue') = lower(i_queue_name) and (c.call ->> 'msg_id')::bigint = m.msg_id;
    elsif m.state = 'dead' then
        return query values (null::timestamptz, concat_ws(': ', 'It was dead-lettered', m.reason), '{"cause": "dead letter"}'::jsonb);
    elsif m.state = 'gone' then
        return query values (
            null::timestamptz,
            'It was deleted (by its consumer, a purge, retention or an export), redriven or purged as a dead letter; '
                'or the transaction that sent it is still open or was rolled back',
            '{"cause": "gone"}'::jsonb
        );
    elsif m.state = 'ready' then
        return query select r.* from sluice._explain_claims(i_queue_name) as r;
        get diagnostics v_reasons = row_count;
        return query select r.* from sluice._explain_key(i_queue_name, i_found, i_may_read) as r;
        v_reasons := v_reasons + case when found then 1 else 0 end;
        v_ahead := sluice._count_ahead(i_queue_name, m.msg_id);
        if v_ahead > 0 then
            return query values (
                null::timestamptz,
                format('%s%s with a lower id claimed first', sluice._counted(v_ahead, 'visible message'), case when v_ahead = 1000 then ' or more' end),
                jsonb_build_object('cause', 'order', 'ahead', v_ahead)
            );
        elsif v_reasons = 0 and m.locked_by is null then
            return query select w.* from sluice._explain_workers('queue ' || i_queue_name) as w;
        end if;
    end if;
end;
$$;

comment on function sluice._explain_message_reason(text, jsonb, boolean) is
    'Return the reasons why a message is not running now; the detail has the cause.';
revoke execute on function sluice._explain_message_reason(text, jsonb, boolean) from public;
grant execute on function sluice._explain_message_reason(text, jsonb, boolean) to sluice_admin;
