/*
 * The sections: state, history, reason, next. A fact is a sentence; at is the time that it refers to, in the past or in the
 * future. Contents are never returned. The key, the origin and the error text are parts of a message, and only returned to
 * roles that may read it.
 *
 * Calls: sluice._find_message, sluice._explain_message_state, sluice._explain_message_history, sluice._explain_message_reason,
 * sluice._explain_message_next.
 */
create or replace function sluice.explain_message(queue_name text, msg_id bigint)
returns table (ordinal integer, section text, at timestamptz, fact text, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_name constant text := sluice._registered_name(queue_name);
    v_table constant text := pgmq.format_table_name(queue_name, 'q');
    v_may_read boolean;
    v_found jsonb;
begin
    perform pgmq._require_own_table(v_table);
    v_may_read := sluice._may_read(format('pgmq.%I', v_table)::regclass);
    v_found := sluice._find_message(v_queue_name, msg_id);
    if not v_may_read then
        v_found := v_found - '{key, schedule, origin, error}'::text[];
        if v_found ->> 'reason' not in ('too many attempts', 'delivered too often without an outcome', 'rejected') then
            v_found := v_found - 'reason';
        end if;
    end if;
    return query
        select (row_number() over (order by part.number, part.position))::integer, part.section, case when isfinite(part.at) then part.at end, part.fact,
            jsonb_strip_nulls(part.detail)
        from (
            select 1 as number, s.position, 'state' as section, s.at, s.fact, s.detail
            from sluice._explain_message_state(v_queue_name, v_found) with ordinality as s (at, fact, detail, position)
            union all
            select 2, h.position, 'history', h.at, h.fact, h.detail
            from sluice._explain_message_history(v_queue_name, v_found) with ordinality as h (at, fact, detail, position)
            union all
            select 3, r.position, 'reason', r.at, r.fact, r.detail
            from sluice._explain_message_reason(v_queue_name, v_found, v_may_read) with ordinality as r (at, fact, detail, position)
            union all
            select 4, n.position, 'next', n.at, n.fact, n.detail
            from sluice._explain_message_next(v_queue_name, v_found) with ordinality as n (at, fact, detail, position)
        ) as part
        order by 1;
end;
$$;

comment on function sluice.explain_message(text, bigint) is
    'Explain a message: its state, its history, the reasons why it is not running now, and what happens next; one row per fact, with the time it refers to. Never returns contents; keys and error texts only to roles that may read the queue.';
revoke execute on function sluice.explain_message(text, bigint) from public;
grant execute on function sluice.explain_message(text, bigint) to sluice_admin, sluice_reader, sluice_monitor;
