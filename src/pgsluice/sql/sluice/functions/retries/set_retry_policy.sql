-- Reads: pgmq.meta. Writes: sluice.retry_policy.
create or replace function sluice.set_retry_policy(
    queue_name text,
    max_attempts integer default 5,
    backoff text default 'exponential',
    backoff_base interval default '1 second',
    backoff_max interval default '5 minutes',
    backoff_jitter boolean default true,
    backoff_factor double precision default 2
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_policy sluice.retry_policy;
begin
    v_policy.queue_name := sluice._registered_name(queue_name);
    v_policy.max_attempts := max_attempts;
    v_policy.backoff := backoff;
    v_policy.backoff_base := backoff_base;
    v_policy.backoff_max := backoff_max;
    v_policy.backoff_jitter := backoff_jitter;
    v_policy.backoff_factor := backoff_factor;
    v_policy := sluice._complete_retry_policy(v_policy);

    insert into sluice.retry_policy as p (
        queue_name, max_attempts, backoff, backoff_base, backoff_max, backoff_jitter, backoff_factor
    )
    values (
        v_policy.queue_name, v_policy.max_attempts, v_policy.backoff, v_policy.backoff_base, v_policy.backoff_max,
        v_policy.backoff_jitter, v_policy.backoff_factor
    )
    on conflict on constraint retry_policy_pkey do update
    set max_attempts = excluded.max_attempts,
        backoff = excluded.backoff,
        backoff_base = excluded.backoff_base,
        backoff_max = excluded.backoff_max,
        backoff_jitter = excluded.backoff_jitter,
        backoff_factor = excluded.backoff_factor;
end;
$$;

comment on function sluice.set_retry_policy(text, integer, text, interval, interval, boolean, double precision) is
    'Set the maximum attempts and the back-off of a queue; null: the default. Applies from the next failure on.';
revoke execute on function sluice.set_retry_policy(text, integer, text, interval, interval, boolean, double precision) from public;
grant execute on function sluice.set_retry_policy(text, integer, text, interval, interval, boolean, double precision) to sluice_admin;
