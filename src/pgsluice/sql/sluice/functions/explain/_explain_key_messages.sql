-- Counts up to 1,000 messages, by the indexes of keys: those of limits, else those of create_fifo_index.
create or replace function sluice._explain_key_messages(i_queue_name text, i_key text)
returns table (section text, at timestamptz, fact text, detail jsonb)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_counted_max constant integer := 1000;
    v_table constant text := pgmq.format_table_name(i_queue_name, 'q');
    v_has_limits boolean;
    v_key_sql text;
    k record;
begin
    select num_nonnulls(l.key_concurrency, l.when_waiting) > 0 into v_has_limits from sluice.queue_settings as l where l.queue_table = v_table;
    if v_has_limits then
        v_key_sql := sluice._limit_key_sql('m');
    elsif pgmq._has_fifo_index(v_table) then
        v_key_sql := pgmq._fifo_key_sql('m');
    else
        return query values (
            'state', null::timestamptz,
            format('Queue %s has neither limits of keys nor FIFO indexes, so its keys block nothing', i_queue_name),
            '{"state": "unordered"}'::jsonb
        );
        return;
    end if;
    -- Ready and deferred messages have separate indexes in a queue with limits.
    execute format(
        'with member as materialized (
            (
                select m.msg_id, m.vt, m.last_read_at, m.read_ct
                from pgmq.%1$I as m
                where %2$s between $1 and $1 and m.vt <= m.enqueued_at
                order by %2$s, m.msg_id
                limit $3
            )
            union all
            (
                select m.msg_id, m.vt, m.last_read_at, m.read_ct
                from pgmq.%1$I as m
                where %2$s between $1 and $1 and m.vt > m.enqueued_at
                order by %2$s, m.vt
                limit $3
            )
        )
        select count(*) as messages, count(*) filter (where s.vt <= $2) as visible, min(s.msg_id) filter (where s.vt <= $2) as first,
            count(*) filter (where s.vt > $2 and s.last_read_at is not null) as in_flight
        from member as s',
        v_table, v_key_sql
    )
    using hashtextextended(i_key, 0), clock_timestamp(), v_counted_max
    into k;
    return query values (
        'state', null::timestamptz,
        format(
            'Key %L of queue %s has %s%s, %s visible, %s in flight', i_key, i_queue_name, sluice._counted(k.messages, 'message'),
            case when k.messages >= v_counted_max then ' or more' end, k.visible, k.in_flight
        ),
        jsonb_build_object(
            'state', case when k.messages = 0 then 'empty' when k.visible = 0 then 'none visible' else 'waiting' end,
            'messages', k.messages, 'visible', k.visible, 'in_flight', k.in_flight, 'first_msg_id', k.first
        )
    );
    if k.first is null then
        return;
    end if;
    return query select 'reason', c.at, c.fact, c.detail from sluice._explain_claims(i_queue_name) as c;
    return query
        select 'reason', b.at, b.fact, b.detail
        from sluice._explain_key(i_queue_name, jsonb_build_object('msg_id', k.first, 'key', i_key), true) as b;
    return query values ('next', null::timestamptz, format('The next message of the key to claim is %s', k.first), '{}'::jsonb);
end;
$$;

comment on function sluice._explain_key_messages(text, text) is
    'Return the state of a key of a queue, and the reasons that hold back its first visible message.';
revoke execute on function sluice._explain_key_messages(text, text) from public;
grant execute on function sluice._explain_key_messages(text, text) to sluice_admin;
