-- jsonb_populate_record casts to the types of the table: a number becomes an interval in seconds.
--
-- Reads: sluice.retry_policy.
create or replace function sluice._retry_settings(queue_name text, policy jsonb default null)
returns sluice.retry_policy
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_fields constant text[] := array['max_attempts', 'backoff', 'backoff_base', 'backoff_max', 'backoff_jitter', 'backoff_factor'];
    v_policy sluice.retry_policy;
    v_unknown text;
begin
    select p.*
    into v_policy
    from sluice.retry_policy as p
    where p.queue_table = lower('q_' || _retry_settings.queue_name);
    if policy is not null then
        if jsonb_typeof(policy) <> 'object' then
            raise exception using
                errcode = '22023',
                message = format('a retry policy is %s', policy),
                hint = 'pass a JSON object, or null for the policy of the queue';
        end if;
        select f.name
        into v_unknown
        from jsonb_object_keys(policy) as f (name)
        where f.name <> all (v_fields)
        order by f.name
        limit 1;
        if found then
            raise exception using
                errcode = '22023',
                message = format('a retry policy has no field %L', v_unknown),
                hint = format('the fields are: %s', array_to_string(v_fields, ', '));
        end if;
        v_policy := jsonb_populate_record(v_policy, jsonb_strip_nulls(policy));
    end if;
    return sluice._complete_retry_policy(v_policy);
end;
$$;

comment on function sluice._retry_settings(text, jsonb) is
    'Return the retry policy of a queue, else the defaults, overridden by the given fields.';
revoke execute on function sluice._retry_settings(text, jsonb) from public;
grant execute on function sluice._retry_settings(text, jsonb) to sluice_admin, sluice_monitor, sluice_reader;
