/*
 * An explanation has one row per fact: the section (state, history, reason, next), the time that the fact refers to, a word for
 * the fact, and its values. The first row names the object. Clients make sentences of them: pgsluice/client/sentences.py.
 * Contents are never returned; keys, origins and error texts, which are parts of messages, only to roles that may read these.
 * Numbers above 5,000 are estimates, as in pgmq.metrics. Of dead letters and parked keys, 1,000 are counted.
 *
 * Reads: the newest row of queue, archive and dead letters by index.
 */
create or replace function sluice.explain_queue(queue_name text)
returns table (section text, at timestamptz, cause text, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_counted_max constant integer := 1000;
    -- An index cannot find rows by a volatile function.
    v_now constant timestamptz := clock_timestamp();
    v_name constant text := sluice._registered_name(queue_name);
    v_table constant text := pgmq.format_table_name(queue_name, 'q');
    v_may_read boolean;
    c record;
    v_sent bigint;
    v_at timestamptz;
    v_reasons bigint;
begin
    perform pgmq._require_own_table(v_table);
    v_may_read := sluice._may_read(format('pgmq.%I', v_table)::regclass);
    select n.* into c from pgmq._count(v_table, v_now) as n;
    return query values (
        'state', null::timestamptz, 'messages',
        jsonb_build_object(
            'queue_name', v_name, 'length', c.length, 'visible', c.visible, 'in_flight', c.in_flight, 'retrying', c.retrying,
            'delayed', c.delayed
        )
    );
    if c.ready_since is not null then
        return query values ('state', c.ready_since, 'visible since', '{}'::jsonb);
    end if;

    return query select 'history', m.created_at, 'created', '{}'::jsonb from pgmq.meta as m where m.queue_name = v_name;
    execute format(
        'select case when ids.is_called then ids.last_value else 0 end,
            (select m.enqueued_at from pgmq.%I as m order by m.msg_id desc limit 1)
         from pgmq.%I as ids',
        v_table, v_table || '_msg_id_seq'
    )
    into v_sent, v_at;
    if v_sent > 0 then
        return query values ('history', nullif(v_at, 'infinity'), 'newest id', jsonb_build_object('newest_msg_id', v_sent, 'in_queue', v_at is not null));
    end if;
    execute format('select m.archived_at from pgmq.%I as m order by m.archived_at desc limit 1', pgmq.format_table_name(queue_name, 'a'))
    into v_at;
    if v_at is not null then
        return query values ('history', v_at, 'archived', '{}'::jsonb);
    end if;
    return query
        select 'history', max(d.dead_at), 'dead letters',
            jsonb_build_object(
                'dead', count(*), 'at_least', count(*) = v_counted_max,
                'error', (array_agg(concat_ws(': ', d.error_type, case when v_may_read then d.error end) order by d.dead_at desc))[1]
            )
        from (
            select m.dead_at, m.error_type, m.error
            from sluice.dead_letter_message as m
            where lower(m.queue_name) = lower(v_name) and m.dead_at > now() - interval '1 day'
            order by m.dead_at desc
            limit v_counted_max
        ) as d
        having count(*) > 0;

    return query select 'reason', r.* from sluice._explain_claims(v_name) as r;
    get diagnostics v_reasons = row_count;
    return query
        select 'reason', p.last_read_at, 'poison message', jsonb_build_object('msg_id', p.msg_id, 'read_ct', p.read_ct)
        from sluice.poison_message(v_name, null::bigint) as p;
    if c.length = 0 then
        return query values ('reason', null::timestamptz, 'empty', '{}'::jsonb);
    elsif c.visible = 0 then
        return query values ('reason', null::timestamptz, 'none visible', '{}'::jsonb);
    end if;
    return query execute format(
        -- Delayed messages that are visible now have the same index, so the limit is on the rows that are read.
        'select ''reason'', min(d.vt) filter (where d.is_claimed), ''expired leases'',
            jsonb_build_object(''expired'', count(*) filter (where d.is_claimed), ''at_least'', count(*) = $1)
         from (
            select m.vt, m.last_read_at is not null as is_claimed
            from pgmq.%I as m
            where m.vt > m.enqueued_at and m.vt <= $2
            order by m.vt
            limit $1
         ) as d
         having bool_or(d.is_claimed)',
        v_table
    )
    using v_counted_max, v_now;
    if c.visible > 0 then
        return query
            select 'reason', min(p.parked_at), 'keys parked', jsonb_build_object('parked', count(*))
            from (
                select k.parked_at
                from sluice.queue_settings as l
                join sluice.parked_key as k on k.limits_id = l.limits_id
                where l.queue_table = v_table
                limit v_counted_max
            ) as p
            having count(*) > 0;
        if v_reasons = 0 then
            return query select 'reason', w.* from sluice._explain_workers('queue ' || v_name) as w;
        end if;
    end if;
    return query select 'reason', f.* from sluice._explain_failures(v_name, null::text, v_may_read) as f;
    if c.visible > 0 then
        return query values ('next', null::timestamptz, 'next claim', '{}'::jsonb);
    end if;
    return query execute format(
        'select ''next'', min(d.vt), case when d.is_claimed then ''lease ends'' else ''becomes visible'' end, ''{}''::jsonb
         from (
            select m.vt, m.last_read_at is not null as is_claimed
            from pgmq.%I as m
            where m.vt > m.enqueued_at and m.vt > $2 and m.vt < ''infinity''
            order by m.vt
            limit $1
         ) as d
         group by d.is_claimed
         order by d.is_claimed desc',
        v_table
    )
    using v_counted_max, v_now;
end;
$$;

comment on function sluice.explain_queue(text) is
    'Explain a queue: its messages by state, its history, the reasons why none is claimed, and what happens next; one row per fact, with the time it refers to, a word for it, and its values.';
revoke execute on function sluice.explain_queue(text) from public;
grant execute on function sluice.explain_queue(text) to sluice_admin, sluice_reader, sluice_monitor;
