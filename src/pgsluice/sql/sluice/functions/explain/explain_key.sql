/*
 * See sluice.explain_queue for the rows. The key of a message is its header x-pgmq-group. A key is user data, so monitoring roles
 * cannot ask for one. Up to 1,000 messages are counted, by the indexes of keys: those of limits, else those of create_fifo_index.
 */
create or replace function sluice.explain_key(queue_name text, key text)
returns table (section text, at timestamptz, cause text, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_counted_max constant integer := 1000;
    v_name constant text := sluice._registered_name(queue_name);
    v_table constant text := pgmq.format_table_name(queue_name, 'q');
    v_has_limits boolean;
    v_key_sql text;
    k record;
begin
    perform pgmq._require_own_table(v_table);
    select num_nonnulls(l.key_concurrency, l.when_waiting) > 0 into v_has_limits from sluice.queue_settings as l where l.queue_table = v_table;
    if v_has_limits then
        v_key_sql := sluice._limit_key_sql('m');
    elsif pgmq._has_fifo_index(v_table) then
        v_key_sql := pgmq._fifo_key_sql('m');
    else
        return query values (
            'state', null::timestamptz, 'key of messages', jsonb_build_object('state', 'unordered', 'queue_name', v_name, 'key', key)
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
    using hashtextextended(key, 0), clock_timestamp(), v_counted_max
    into k;
    return query values (
        'state', null::timestamptz, 'key of messages',
        jsonb_build_object(
            'state', case when k.messages = 0 then 'empty' when k.visible = 0 then 'none visible' else 'waiting' end,
            'queue_name', v_name, 'key', key, 'messages', k.messages, 'at_least', k.messages >= v_counted_max, 'visible', k.visible,
            'in_flight', k.in_flight, 'first_msg_id', k.first
        )
    );
    if k.first is null then
        return;
    end if;
    return query select 'reason', c.* from sluice._explain_claims(v_name) as c;
    return query select 'reason', b.* from sluice._explain_key(v_table, k.first) as b;
    return query values ('next', null::timestamptz, 'next of key', '{}'::jsonb);
end;
$$;

comment on function sluice.explain_key(text, text) is
    'Explain a key of a queue: its messages, and why the first visible one is not claimed; one row per fact, with the time it refers to, a word for it, and its values.';
revoke execute on function sluice.explain_key(text, text) from public;
grant execute on function sluice.explain_key(text, text) to sluice_admin, sluice_reader;

-- State as of the last claim: later acknowledgements are read by the next one.
create or replace function sluice.explain_key(log_name text, group_name text, key text)
returns table (section text, at timestamptz, cause text, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_group constant sluice.share_group := sluice._require_group(log_name, group_name);
    v_shift constant interval := (sluice._last_claim(v_group.group_id)).clock_shift;
    v_turn sluice.key_turn;
    v_waiting integer;
    v_parked record;
    v_state text;
begin
    -- The ledgers must not be truncated between the snapshot of the next statement and its reads.
    lock table sluice.key_turn in access share mode;
    select t.* into v_turn
    from sluice.key_turn as t
    where t.group_id = v_group.group_id and t.key = explain_key.key
    order by t.turn_id desc
    limit 1;
    v_waiting := coalesce(v_turn.waiting + cardinality(v_turn.returned), 0);
    select min(d.dead_at) as since, count(*) as events, (array_agg(d.msg_id order by d.place))[1] as ev_id
    into v_parked
    from (
        select d.dead_at, d.msg_id, d.place
        from sluice.dead_letter_event as d
        where d.queue_name = explain_key.log_name and d.consumer_name = explain_key.group_name and d.key = explain_key.key
          and d.reason = 'parked'
        order by d.place
        limit 1000
    ) as d;
    v_state := case
        when v_group.key is null then 'unordered'
        when v_parked.events > 0 then 'parked'
        when v_turn.claim_id is not null then 'claimed'
        when v_waiting > 0 then 'waiting'
        else 'free'
    end;
    return query values (
        'state', null::timestamptz, 'key of events',
        jsonb_build_object(
            'state', v_state, 'log_name', log_name, 'group_name', group_name, 'key', key,
            'parked', v_parked.events, 'waiting', v_waiting
        )
    );
    if v_parked.events > 0 then
        return query values ('reason', v_parked.since, 'group key parked', jsonb_build_object('ev_id', v_parked.ev_id));
    end if;
    if v_turn.claim_id is not null then
        return query values ('reason', v_turn.since, 'key claimed', jsonb_build_object('claim_id', v_turn.claim_id));
    elsif cardinality(v_turn.returned) > 0 and v_turn.due_at - v_shift > clock_timestamp() then
        return query values ('reason', v_turn.due_at - v_shift, 'key redelivered', '{}'::jsonb);
    end if;
    return query values ('next', null::timestamptz, 'key of events', '{}'::jsonb);
end;
$$;

comment on function sluice.explain_key(text, text, text) is
    'Explain a key of a share group: whether it is claimed, waits for a redelivery or is parked; one row per fact, with the time it refers to, a word for it, and its values.';
revoke execute on function sluice.explain_key(text, text, text) from public;
grant execute on function sluice.explain_key(text, text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
