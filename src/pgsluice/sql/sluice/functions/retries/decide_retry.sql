-- For consumers of logs: the number of their attempts is in ev_retry of an event, and they have no policy in the database.
create or replace function sluice.decide_retry(attempt integer, failure jsonb, policy jsonb default null)
returns table (outcome text, reason text, delay double precision)
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    select d.outcome, d.reason, extract(epoch from d.delay)::double precision
    from sluice._decide(
        sluice._retry_settings(null::text, decide_retry.policy), decide_retry.attempt, false, decide_retry.failure
    ) as d;
$$;

comment on function sluice.decide_retry(integer, jsonb, jsonb) is
    'Decide about a failed attempt under a retry policy, as sluice.fail does: retry after a delay in seconds, or dead with the reason. Failure: an object with reject, delay, delay_min and reason, as in sluice.fail.';
revoke execute on function sluice.decide_retry(integer, jsonb, jsonb) from public;
grant execute on function sluice.decide_retry(integer, jsonb, jsonb) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
