/*
 * The key of a message is its header x-pgmq-group. A key is user data, so monitoring roles cannot ask for one.
 *
 * Calls: sluice._explain_key_messages.
 */
create or replace function sluice.explain_key(queue_name text, key text)
returns table (ordinal integer, section text, at timestamptz, fact text, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_name constant text := sluice._registered_name(queue_name);
begin
    perform pgmq._require_own_table(pgmq.format_table_name(queue_name, 'q'));
    return query
        select (row_number() over (order by k.position))::integer, k.section,
            case when isfinite(k.at) then k.at end, k.fact, jsonb_strip_nulls(k.detail)
        from sluice._explain_key_messages(v_queue_name, key) with ordinality as k (section, at, fact, detail, position)
        order by 1;
end;
$$;

comment on function sluice.explain_key(text, text) is
    'Explain a key of a queue: its messages, and why the first visible one is not claimed; one row per fact, with the time it refers to.';
revoke execute on function sluice.explain_key(text, text) from public;
grant execute on function sluice.explain_key(text, text) to sluice_admin, sluice_reader;

-- State as of the last claim: later acknowledgements are read by the next one.
create or replace function sluice.explain_key(queue_name text, group_name text, key text)
returns table (ordinal integer, section text, at timestamptz, fact text, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_group constant sluice.share_group := sluice._require_group(queue_name, group_name);
    v_shift constant interval := (sluice._last_claim(v_group.group_id)).clock_shift;
    v_turn sluice.key_turn;
    v_parked record;
begin
    -- The ledgers must not be truncated between the snapshot of the next statement and its reads.
    lock table sluice.key_turn in access share mode;
    select t.* into v_turn
    from sluice.key_turn as t
    where t.group_id = v_group.group_id and t.key = explain_key.key
    order by t.turn_id desc
    limit 1;
    select min(d.dead_at) as since, count(*) as events, (array_agg(d.msg_id order by d.place))[1] as ev_id
    into v_parked
    from (
        select d.dead_at, d.msg_id, d.place
        from sluice.dead_letter_event as d
        where d.queue_name = explain_key.queue_name and d.consumer_name = explain_key.group_name and d.key = explain_key.key
          and d.reason = 'parked'
        order by d.place
        limit 1000
    ) as d;
    return query
        select (row_number() over (order by part.number))::integer, part.section,
            case when isfinite(part.at) then part.at end, part.fact, jsonb_strip_nulls(part.detail)
        from (
            select 1 as number, 'state' as section, null::timestamptz as at,
                case
                    when v_group.key is null then format('Share group %s of log %s has no key, so its events have no order', group_name, queue_name)
                    when v_parked.events > 0 then format('Key %L is parked with %s', key, sluice._counted(v_parked.events, 'event'))
                    when v_turn.claim_id is not null then format('Key %L is claimed, and %s waiting', key, sluice._counted(v_turn.waiting + cardinality(v_turn.returned), 'event'))
                    when v_turn.waiting + cardinality(v_turn.returned) > 0 then format('Key %L has %s waiting', key, sluice._counted(v_turn.waiting + cardinality(v_turn.returned), 'event'))
                    else format('Key %L is free: it has no claimed and no waiting event', key)
                end as fact,
                jsonb_build_object('state', case
                    when v_group.key is null then 'unordered'
                    when v_parked.events > 0 then 'parked'
                    when v_turn.claim_id is not null then 'claimed'
                    when v_turn.waiting + cardinality(v_turn.returned) > 0 then 'waiting'
                    else 'free'
                end) as detail
            union all
            select 2, 'reason', v_parked.since, format('Event %s failed and parked it', v_parked.ev_id),
                jsonb_build_object(
                    'cause', 'key parked', 'ev_id', v_parked.ev_id, 'sql', format('select sluice.unpark_key(%L, %L, %L)', queue_name, group_name, key),
                    'command', format('pgsluice group unpark %s %s %s', sluice._shell_word(queue_name), sluice._shell_word(group_name), sluice._shell_word(key))
                )
            where v_parked.events > 0
            union all
            select 3, 'reason', v_turn.since, format('Claim %s has events of the key and is not settled', v_turn.claim_id),
                jsonb_build_object('cause', 'key claimed', 'claim_id', v_turn.claim_id)
            where v_turn.claim_id is not null
            union all
            select 4, 'reason', v_turn.due_at - v_shift, 'Its next event is redelivered', '{"cause": "key retrying"}'
            where v_turn.claim_id is null and cardinality(v_turn.returned) > 0 and v_turn.due_at - v_shift > clock_timestamp()
            union all
            select 5, 'next', null,
                case
                    when v_parked.events > 0 then 'Nothing, until it is unparked'
                    when v_turn.claim_id is not null then 'The claim is settled, or its lease expires; then the next event of the key can be claimed'
                    else 'The next claim takes its next event'
                end,
                '{}'
        ) as part
        order by 1;
end;
$$;

comment on function sluice.explain_key(text, text, text) is
    'Explain a key of a share group: whether it is claimed, waits for a redelivery or is parked; one row per fact, with the time it refers to.';
revoke execute on function sluice.explain_key(text, text, text) from public;
grant execute on function sluice.explain_key(text, text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
