/*
 * Idempotent: repeated after a lost reply, the outcomes are gone, and the results of the first call are kept.
 *
 * Calls: sluice.archive, sluice.delete, sluice.store_results.
 */
create or replace function sluice.finish(
    queue_name text, msg_ids bigint[], read_cts integer[], results jsonb, keep interval, is_archived boolean default true,
    enqueued_ats timestamptz[] default null
)
returns table (msg_id bigint, outcome text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_settled_ids bigint[];
    v_outcomes text[];
    v_done_ids bigint[];
    v_done_results jsonb;
begin
    if is_archived then
        select array_agg(s.msg_id order by s.ordinality), array_agg(s.outcome order by s.ordinality)
        into v_settled_ids, v_outcomes
        from sluice.archive(queue_name, msg_ids, read_cts, enqueued_ats) with ordinality as s;
    else
        select array_agg(s.msg_id order by s.ordinality), array_agg(s.outcome order by s.ordinality)
        into v_settled_ids, v_outcomes
        from sluice.delete(queue_name, msg_ids, read_cts, enqueued_ats) with ordinality as s;
    end if;
    select array_agg(s.msg_id order by s.position), jsonb_agg(s.result order by s.position)
    into v_done_ids, v_done_results
    from rows from (unnest(v_settled_ids), unnest(v_outcomes), jsonb_array_elements(results))
        with ordinality as s (msg_id, outcome, result, position)
    where s.outcome = 'done';
    if v_done_ids is not null then
        perform sluice.store_results(queue_name, v_done_ids, v_done_results, keep);
    end if;
    return query select s.msg_id, s.outcome from unnest(v_settled_ids, v_outcomes) as s (msg_id, outcome);
end;
$$;

comment on function sluice.finish(text, bigint[], integer[], jsonb, interval, boolean, timestamptz[]) is
    'Archive or delete claimed messages and keep their results, one element of a JSON array each, for the time keep; outcomes as those of sluice.archive. Only results of messages whose outcome is done are kept.';
revoke execute on function sluice.finish(text, bigint[], integer[], jsonb, interval, boolean, timestamptz[]) from public;
grant execute on function sluice.finish(text, bigint[], integer[], jsonb, interval, boolean, timestamptz[]) to sluice_admin, sluice_reader;
