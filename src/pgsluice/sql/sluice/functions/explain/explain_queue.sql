/*
 * See sluice.explain_message for the columns. Numbers above 5,000 are estimates, as in pgmq.metrics.
 *
 * Calls: sluice._explain_queue_state, sluice._explain_queue_history, sluice._explain_queue_reason.
 */
create or replace function sluice.explain_queue(queue_name text)
returns table (ordinal integer, section text, at timestamptz, fact text, detail jsonb)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_name constant text := sluice._registered_name(queue_name);
    v_table constant text := pgmq.format_table_name(queue_name, 'q');
    v_counts jsonb;
    v_may_read boolean;
begin
    perform pgmq._require_own_table(v_table);
    v_may_read := sluice._may_read(format('pgmq.%I', v_table)::regclass);
    v_counts := sluice._count_states(v_queue_name);
    return query
        select (row_number() over (order by part.number, part.position))::integer, part.section, case when isfinite(part.at) then part.at end, part.fact,
            jsonb_strip_nulls(part.detail)
        from (
            select 1 as number, s.position, 'state' as section, s.at, s.fact, s.detail
            from sluice._explain_queue_state(v_queue_name, v_counts) with ordinality as s (at, fact, detail, position)
            union all
            select 2, h.position, 'history', h.at, h.fact, h.detail
            from sluice._explain_queue_history(v_queue_name, v_may_read) with ordinality as h (at, fact, detail, position)
            union all
            select 3, r.position, 'reason', r.at, r.fact, r.detail
            from sluice._explain_queue_reason(v_queue_name, v_counts, v_may_read) with ordinality as r (at, fact, detail, position)
            union all
            select 4, n.position, 'next', n.at, n.fact, n.detail
            from sluice._explain_queue_next(v_queue_name, v_counts) with ordinality as n (at, fact, detail, position)
        ) as part
        order by 1;
end;
$$;

comment on function sluice.explain_queue(text) is
    'Explain a queue: its messages by state, its history, the reasons why none is claimed, and what happens next; one row per fact, with the time it refers to.';
revoke execute on function sluice.explain_queue(text) from public;
grant execute on function sluice.explain_queue(text) to sluice_admin, sluice_reader, sluice_monitor;
