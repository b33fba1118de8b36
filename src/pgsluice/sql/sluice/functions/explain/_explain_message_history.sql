create or replace function sluice._explain_message_history(i_queue_name text, i_found jsonb)
returns table (at timestamptz, fact text, detail jsonb)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    m record;
    v_policy sluice.retry_policy := sluice._retry_settings(i_queue_name, null::jsonb);
begin
    select r.*
    into m
    from jsonb_to_record(i_found) as r (
        msg_id bigint, place text, state text, read_ct integer, enqueued_at timestamptz, last_read_at timestamptz, vt timestamptz,
        archived_at timestamptz, dead_at timestamptz, dead_letter_id bigint, reason text, attempts integer, attempt_state text,
        first_failed_at timestamptz, last_failed_at timestamptz, error_type text, error text, worker text, schedule jsonb, origin jsonb
    );
    if m.place is null then
        return;
    end if;
    return query values (
        m.enqueued_at,
        case
            when m.schedule is not null then format('Sent by schedule %s', m.schedule ->> 'name')
            when m.origin ? 'log' then
                format('Sent by the redrive of event %s of log %s', m.origin ->> 'ev_id', m.origin ->> 'log')
            when m.origin ? 'dead_letter_id' then
                format('Sent by the redrive of message %s of queue %s', m.origin ->> 'msg_id', m.origin ->> 'queue')
            when m.origin is not null then
                format('Sent by the replay of message %s of queue %s', m.origin ->> 'msg_id', m.origin ->> 'queue')
            else 'Sent'
        end,
        jsonb_build_object('schedule', m.schedule, 'origin', m.origin)
    );
    if m.read_ct > 0 then
        return query values (
            m.last_read_at,
            format('Claimed %s', case m.read_ct when 1 then 'once' else m.read_ct || ' times, the last time' end),
            jsonb_build_object('read_ct', m.read_ct)
        );
    end if;
    if m.first_failed_at is not null then
        return query values (m.first_failed_at, 'Failed for the first time', '{}'::jsonb);
    end if;
    if m.last_failed_at is not null or m.error_type is not null then
        return query values (
            coalesce(m.last_failed_at, m.dead_at),
            format(
                'Last error: %s', coalesce(nullif(concat_ws(': ', m.error_type, m.error), ''), 'none recorded; the claim ended without an outcome')
            ),
            jsonb_build_object('error_type', m.error_type, 'error', m.error, 'worker', m.worker)
        );
    end if;
    if m.attempts is not null then
        return query values (
            null::timestamptz,
            format('%s of %s attempts used', m.attempts, v_policy.max_attempts),
            jsonb_build_object('attempts', m.attempts, 'max_attempts', v_policy.max_attempts, 'worker', m.worker)
        );
    end if;
    if m.state = 'dead' then
        return query values (
            m.dead_at,
            concat_ws(': ', 'Dead-lettered', m.reason),
            jsonb_build_object('dead_letter_id', m.dead_letter_id, 'reason', m.reason)
        );
    elsif m.state = 'archived' then
        return query values (m.archived_at, 'Archived', '{}'::jsonb);
        return query
            select case when page.export_id is not null then e.verified_at end,
                format(case when page.export_id is not null then 'Exported by %s to %s and verified there' else 'Not yet verified by export %s in %s' end, e.export_name, e.lake),
                jsonb_build_object('export_name', e.export_name, 'is_verified', page.export_id is not null)
            from sluice.export as e
            left join sluice.exported_page as page
                on page.export_id = e.export_id and page.page = m.msg_id / 256 and page.msg_ids @> m.msg_id
            where e.queue_name = i_queue_name
            order by e.export_name;
    end if;
end;
$$;

comment on function sluice._explain_message_history(text, jsonb) is
    'Return what happened to a message: sent, claimed, failed, dead-lettered, archived, exported.';
revoke execute on function sluice._explain_message_history(text, jsonb) from public;
grant execute on function sluice._explain_message_history(text, jsonb) to sluice_admin;
