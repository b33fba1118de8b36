-- See sluice.explain_queue for the rows. The state is in the first one: see sluice._find_message.
create or replace function sluice.explain_message(queue_name text, msg_id bigint)
returns table (section text, at timestamptz, cause text, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_name constant text := sluice._registered_name(queue_name);
    v_table constant text := pgmq.format_table_name(queue_name, 'q');
    -- What the workers apply.
    v_max_attempts constant integer := coalesce(
        (select max(p.max_attempts) from sluice.handler_policies('queue ' || v_name) as p),
        (sluice._retry_settings(v_name, null::jsonb)).max_attempts
    );
    v_stream_claim constant timestamptz := '9000-01-01 00:00:00+00'; -- a later vt marks a micro-batch of a stream
    v_may_read boolean;
    v_is_waiting boolean := false;
    v_found jsonb;
    m record;
    v_reasons bigint;
    v_ahead bigint;
    v_retention interval;
begin
    perform pgmq._require_own_table(v_table);
    v_may_read := sluice._may_read(format('pgmq.%I', v_table)::regclass);
    v_found := sluice._find_message(v_name, msg_id);
    if not v_may_read then
        v_found := v_found - '{key, schedule, origin, error}'::text[];
        if v_found ->> 'reason' not in ('too many attempts', 'delivered too often without an outcome', 'rejected') then
            v_found := v_found - 'reason';
        end if;
    end if;
    select r.*
    into m
    from jsonb_to_record(v_found) as r (
        msg_id bigint, newest bigint, place text, state text, key text, vt timestamptz, read_ct integer, enqueued_at timestamptz,
        last_read_at timestamptz, archived_at timestamptz, dead_at timestamptz, dead_letter_id bigint, reason text, attempts integer,
        attempt_state text, attempt_is_current boolean, first_failed_at timestamptz, last_failed_at timestamptz, error_type text,
        error text, worker text, schedule jsonb, origin jsonb, locked_by integer
    );

    return query values (
        'state',
        case
            when m.state = 'ready' then greatest(m.vt, m.enqueued_at)
            when m.state = 'in flight' then m.last_read_at
            when m.state in ('delayed', 'retrying', 'released') and isfinite(m.vt) then m.vt
            when m.state = 'archived' then m.archived_at
            when m.state = 'dead' then m.dead_at
        end,
        'message',
        jsonb_build_object(
            'state', m.state, 'queue_name', v_name, 'msg_id', m.msg_id, 'key', m.key, 'newest_msg_id', m.newest, 'read_ct', m.read_ct,
            'is_expired', m.last_read_at is not null, 'has_end', isfinite(m.vt), 'dead_letter_id', m.dead_letter_id
        )
    );

    if m.place is not null then
        return query values ('history', m.enqueued_at, 'sent', jsonb_build_object('schedule', m.schedule ->> 'name', 'origin', m.origin));
        if m.read_ct > 0 then
            return query values ('history', m.last_read_at, 'claimed', '{}'::jsonb);
        end if;
        if m.first_failed_at is not null then
            return query values ('history', m.first_failed_at, 'first failure', '{}'::jsonb);
        end if;
        if m.last_failed_at is not null or m.error_type is not null then
            return query values (
                'history', coalesce(m.last_failed_at, m.dead_at), 'last error',
                jsonb_build_object('error_type', m.error_type, 'error', m.error, 'worker', m.worker)
            );
        end if;
        if m.attempts is not null then
            return query values (
                'history', null::timestamptz, 'attempts', jsonb_build_object('attempts', m.attempts, 'max_attempts', v_max_attempts)
            );
        end if;
    end if;
    if m.state = 'dead' then
        return query values ('history', m.dead_at, 'dead letter', jsonb_build_object('reason', m.reason));
    elsif m.state = 'archived' then
        return query values ('history', m.archived_at, 'archived', '{}'::jsonb);
        return query
            select 'history', case when page.export_id is not null then e.verified_at end, 'export',
                jsonb_build_object('export_name', e.export_name, 'lake', e.lake, 'is_verified', page.export_id is not null)
            from sluice.export as e
            left join sluice.exported_page as page
                on page.export_id = e.export_id and page.page = m.msg_id / 256 and page.msg_ids @> m.msg_id
            where e.queue_name = v_name
            order by e.export_name;
    end if;

    if m.locked_by is not null then
        return query values ('reason', null::timestamptz, 'row locked', jsonb_build_object('session', sluice._session(m.locked_by)));
    end if;
    if m.state in ('ready', 'in flight', 'retrying', 'released') then
        return query
            select 'reason', p.last_read_at, 'poison message', jsonb_build_object('msg_id', p.msg_id, 'read_ct', p.read_ct)
            from sluice.poison_message(v_name, m.msg_id) as p;
    end if;
    if m.state = 'delayed' and m.vt = 'infinity' then
        return query
            select 'reason', null::timestamptz, 'predecessors',
                jsonb_build_object('after_queue', substr(p.queue_table, 3), 'msg_ids', jsonb_agg(p.msg_id order by p.msg_id))
            from sluice.successor as s
            join sluice.predecessor as p on p.successor_id = s.successor_id
            where s.queue_table = v_table and s.msg_id = m.msg_id
            group by p.queue_table
            order by p.queue_table;
        v_is_waiting := found;
    end if;
    if v_is_waiting then
        null;
    elsif m.state in ('delayed', 'released') then
        return query values ('reason', nullif(m.vt, 'infinity'), 'delay', '{}'::jsonb);
    elsif m.state = 'retrying' then
        return query values (
            'reason', nullif(m.vt, 'infinity'), 'back-off', jsonb_build_object('attempt', m.attempts + 1, 'max_attempts', v_max_attempts)
        );
    elsif m.state = 'in flight' and m.vt >= v_stream_claim then
        return query
            select 'reason', b.claimed_at, 'stream', jsonb_build_object('stream_name', s.stream_name, 'batch', b.seq)
            from sluice.queue_stream as s
            cross join unnest(s.batches) as b
            where b.mark = m.vt;
    elsif m.state = 'in flight' then
        return query values (
            'reason', m.vt, 'lease',
            jsonb_build_object('worker', case when m.attempt_is_current and m.attempt_state = 'begun' then m.worker end)
        );
        return query
            select 'reason', (c.call ->> 'since')::timestamptz, 'running',
                jsonb_build_object(
                    'handler', c.call ->> 'handler', 'worker', w.worker_id, 'app', w.app, 'host', w.host, 'pid', w.pid, 'is_live', w.is_live
                )
            from sluice.list_workers() as w
            cross join jsonb_array_elements(w.running) as c (call)
            where lower(c.call ->> 'queue') = lower(v_name) and (c.call ->> 'msg_id')::bigint = m.msg_id;
    elsif m.state = 'dead' then
        return query values ('reason', null::timestamptz, 'dead letter', jsonb_build_object('reason', m.reason));
    elsif m.state = 'gone' then
        return query values ('reason', null::timestamptz, 'gone', '{}'::jsonb);
    elsif m.state = 'ready' then
        return query select 'reason', r.* from sluice._explain_claims(v_name) as r;
        get diagnostics v_reasons = row_count;
        return query select 'reason', r.* from sluice._explain_key(v_table, m.msg_id) as r;
        v_reasons := v_reasons + case when found then 1 else 0 end;
        v_ahead := sluice._count_ahead(v_name, m.msg_id);
        if v_ahead > 0 then
            return query values ('reason', null::timestamptz, 'order', jsonb_build_object('ahead', v_ahead, 'at_least', v_ahead = 1000));
        elsif v_reasons = 0 and m.locked_by is null then
            return query select 'reason', w.* from sluice._explain_workers('queue ' || v_name) as w;
        end if;
    end if;

    if m.state = 'archived' then
        select s.archive_retention into v_retention from sluice.queue_settings as s where s.queue_name = v_name;
    end if;
    return query
        select 'next', r.expires_at, 'result expires', '{}'::jsonb
        from sluice.result as r
        where r.incarnation = format('pgmq.%I', v_table)::regclass::oid::bigint
          and r.msg_id = m.msg_id
          and r.expires_at > clock_timestamp()
          and m.state in ('archived', 'gone');
    return query
        select 'next', n.at, n.cause, '{}'::jsonb
        from (
            values
                ('ready', null, 'next claim'),
                ('delayed', m.vt, 'becomes visible'), ('retrying', m.vt, 'becomes visible'), ('released', m.vt, 'becomes visible'),
                ('in flight', m.vt, 'lease ends'),
                ('dead', null, 'dead letter'),
                ('archived', m.archived_at + v_retention, case when v_retention is null then 'no retention' else 'retention' end)
        ) as n (state, at, cause)
        where n.state = m.state and (n.at is null or isfinite(n.at)) and (m.state <> 'in flight' or m.vt < v_stream_claim)
        union all
        select 'next', null, case when v_is_waiting then 'after' when m.vt = 'infinity' then 'never visible' else 'stream' end, '{}'
        where m.vt >= v_stream_claim and m.state in ('delayed', 'retrying', 'released', 'in flight');
end;
$$;

comment on function sluice.explain_message(text, bigint) is
    'Explain a message: its state, its history, the reasons why it is not running now, and what happens next; one row per fact, with the time it refers to, a word for it, and its values. Never returns contents; keys and error texts only to roles that may read the queue.';
revoke execute on function sluice.explain_message(text, bigint) from public;
grant execute on function sluice.explain_message(text, bigint) to sluice_admin, sluice_reader, sluice_monitor;
