-- Calls: sluice._with_options, sluice._complete_retry_policy. Reads: sluice.queue_settings.
create or replace function sluice._retry_settings(queue_name text, policy jsonb default null)
returns sluice.retry_policy
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_policy sluice.retry_policy;
begin
    select p.max_attempts, p.backoff, p.backoff_base, p.backoff_max, p.backoff_jitter, p.backoff_factor
    into v_policy
    from sluice.queue_settings as p
    where p.queue_table = lower('q_' || _retry_settings.queue_name);
    if policy is not null then
        v_policy := sluice._with_options(
            v_policy, jsonb_strip_nulls(policy),
            array['max_attempts', 'backoff', 'backoff_base', 'backoff_max', 'backoff_jitter', 'backoff_factor'],
            'a retry policy'
        );
    end if;
    return sluice._complete_retry_policy(v_policy);
end;
$$;

comment on function sluice._retry_settings(text, jsonb) is
    'Return the retry policy of a queue, else the defaults, overridden by the given fields.';
revoke execute on function sluice._retry_settings(text, jsonb) from public;
grant execute on function sluice._retry_settings(text, jsonb) to sluice_admin, sluice_monitor, sluice_reader, sluice_writer;
