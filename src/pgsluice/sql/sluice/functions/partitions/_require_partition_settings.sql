-- Calls: _is_time_interval. The text about premake is PGMQ's.
create or replace function sluice._require_partition_settings(
    partition_interval text, retention_interval text, premake integer
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_length interval;
    v_is_valid boolean;
begin
    if premake is null or premake < 1 then
        raise exception using
            message = format('premake must be at least 1, got %s', coalesce(premake::text, '<NULL>')),
            hint = 'it is the number of partitions created in advance of the current one';
    end if;
    if partition_interval is null then
        raise exception using
            errcode = 'null_value_not_allowed',
            message = 'partition_interval must not be null',
            hint = 'pass a number of messages, such as 10000, or a time, such as 1 day';
    end if;

    if sluice._is_time_interval(partition_interval) then
        v_length := partition_interval::interval;
        -- A month has no fixed length: a mixture would have no defined partition bounds.
        v_is_valid := v_length between interval '1 second' and interval '1000 years' -- and not infinite
            and (v_length = date_trunc('month', v_length) or v_length < interval '1 month' and extract(month from v_length) = 0);
        if v_is_valid and retention_interval is not null then
            v_is_valid := retention_interval::interval >= interval '0';
        end if;
    else
        v_is_valid := partition_interval::integer >= 1;
        if v_is_valid and retention_interval is not null then
            v_is_valid := retention_interval::bigint >= 0;
        end if;
    end if;
    if not v_is_valid then
        raise exception using
            errcode = 'invalid_parameter_value',
            message = format(
                'partitions of %L with a retention of %L cannot be made', partition_interval, retention_interval
            ),
            detail = 'An interval is a number of messages from 1 on, a time from 1 second on without months, or whole months.',
            hint = 'pass both as numbers of messages, such as 10000 and 100000, or both as times, such as 1 day and 30 days';
    end if;
end;
$$;

comment on function sluice._require_partition_settings(text, text, integer) is
    'Raise an error if these partition settings are invalid.';
revoke execute on function sluice._require_partition_settings(text, text, integer) from public;
grant execute on function sluice._require_partition_settings(text, text, integer) to sluice_admin;
