create or replace function sluice._complete_retry_policy(i_policy sluice.retry_policy)
returns sluice.retry_policy
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_policy sluice.retry_policy := i_policy;
    v_wrong text;
begin
    v_policy.max_attempts := coalesce(v_policy.max_attempts, 5);
    v_policy.backoff := coalesce(v_policy.backoff, 'exponential');
    v_policy.backoff_base := coalesce(v_policy.backoff_base, '1 second');
    v_policy.backoff_max := coalesce(v_policy.backoff_max, '5 minutes');
    v_policy.backoff_jitter := coalesce(v_policy.backoff_jitter, true);
    v_policy.backoff_factor := coalesce(v_policy.backoff_factor, 2);
    v_wrong := case
        when v_policy.max_attempts < 1 then format('max_attempts %s', v_policy.max_attempts)
        when v_policy.backoff not in ('constant', 'linear', 'exponential') then format('a backoff %L', v_policy.backoff)
        when v_policy.backoff_base not between '0' and '100 years' then format('a backoff_base of %s', v_policy.backoff_base)
        when v_policy.backoff_max not between '0' and '100 years' then format('a backoff_max of %s', v_policy.backoff_max)
        when v_policy.backoff_factor < 1 or v_policy.backoff_factor >= 'infinity' then format('a backoff_factor of %s', v_policy.backoff_factor)
    end;
    if v_wrong is not null then
        raise exception using
            errcode = '22023',
            message = format('a retry policy cannot have %s', v_wrong),
            hint = 'max_attempts 1 or more; backoff constant, linear or exponential; no time below 0 or over 100 years; backoff_factor 1 or more';
    end if;
    return v_policy;
end;
$$;

comment on function sluice._complete_retry_policy(sluice.retry_policy) is
    'Return a retry policy with defaults for its nulls; raise an error if it is invalid.';
revoke execute on function sluice._complete_retry_policy(sluice.retry_policy) from public;
grant execute on function sluice._complete_retry_policy(sluice.retry_policy) to sluice_admin, sluice_monitor, sluice_reader, sluice_writer;
