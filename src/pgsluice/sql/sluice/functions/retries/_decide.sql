-- The one place that decides if a failed message or event is retried or dead-lettered, and when it is retried.
create or replace function sluice._decide(
    i_policy sluice.retry_policy, i_attempt integer, i_is_last boolean, i_failure jsonb,
    out outcome text, out reason text, out delay interval
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce((i_failure ->> 'reject')::boolean, false) then
        outcome := 'dead';
        reason := coalesce(i_failure ->> 'reason', 'rejected');
    elsif i_is_last or sluice._is_last(i_attempt, i_policy.max_attempts, null::integer, null::integer) then
        outcome := 'dead';
        reason := 'too many attempts';
    else
        outcome := 'retry';
        delay := greatest(
            coalesce(
                make_interval(secs => (i_failure ->> 'delay')::double precision),
                sluice._backoff(
                    i_policy.backoff, i_policy.backoff_base, i_policy.backoff_factor, i_policy.backoff_max,
                    i_policy.backoff_jitter, i_attempt
                )
            ),
            make_interval(secs => (i_failure ->> 'delay_min')::double precision)
        );
    end if;
end;
$$;

comment on function sluice._decide(sluice.retry_policy, integer, boolean, jsonb) is
    'Decide about a failed attempt: retry after a delay, that of the failure or the back-off of the policy, at least its delay_min; or dead with the reason, as it is rejected, its attempts are used up, or is_last is true.';
revoke execute on function sluice._decide(sluice.retry_policy, integer, boolean, jsonb) from public;
grant execute on function sluice._decide(sluice.retry_policy, integer, boolean, jsonb) to pgq_admin, sluice_admin, sluice_reader;
