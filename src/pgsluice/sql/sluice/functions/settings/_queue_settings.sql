-- The one place that knows the options of a queue and which values they can have.
--
-- Calls: sluice._with_options, sluice._complete_retry_policy, sluice._require_limits.
create or replace function sluice._queue_settings(i_settings sluice.queue_settings, i_options jsonb, i_declared_by text)
returns sluice.queue_settings
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limits constant text[] := array[
        'fleet_concurrency', 'key_concurrency', 'rate', 'rate_interval', 'when_waiting', 'priority_weights'
    ];
    v_options constant text[] := array[
        'paused', 'pause_reason', 'archive_retention', 'max_attempts', 'backoff', 'backoff_base', 'backoff_max', 'backoff_jitter',
        'backoff_factor', 'deduplication_window', 'deduplication_until', 'on_duplicate'
    ] || v_limits;
    v_settings sluice.queue_settings := sluice._with_options(
        i_settings, i_options, v_options, format('queue %L', i_settings.queue_name)
    );
begin
    if jsonb_typeof(i_options -> 'paused') not in ('boolean', 'null') then
        raise exception using
            errcode = '22023',
            message = format('queue %L cannot have paused %s', i_settings.queue_name, i_options -> 'paused'),
            hint = 'pass true or false';
    end if;
    if not coalesce((i_options ->> 'paused')::boolean, v_settings.paused_at is not null and not i_options ? 'paused') then
        v_settings.paused_at := null;
        v_settings.paused_by := null;
        v_settings.pause_reason := null;
    elsif v_settings.paused_at is null then
        v_settings.paused_at := clock_timestamp();
        v_settings.paused_by := format('role %s', sluice._caller())
            || case
                when current_setting('application_name') <> '' then format(', application %L', current_setting('application_name'))
                else ''
            end;
    end if;

    if v_settings.archive_retention < '0' then
        raise exception using
            errcode = '22023',
            message = format('archive_retention is negative: %s', v_settings.archive_retention),
            hint = 'pass the time to keep archived messages, or null for no limit';
    end if;
    -- An interval beyond the range of timestamps fails here rather than in each maintenance.
    perform clock_timestamp() - v_settings.archive_retention;
    if v_settings.deduplication_window <= '0' then
        raise exception using
            errcode = '22023',
            message = format('deduplication_window is not positive: %s', v_settings.deduplication_window),
            hint = 'give an interval like 5 minutes, or null to forget all keys';
    end if;
    if v_settings.deduplication_until not in ('claimed', 'done') then
        raise exception using
            errcode = '22023',
            message = format('deduplication_until is %L', v_settings.deduplication_until),
            hint = 'use claimed or done, or null';
    end if;
    if v_settings.deduplication_window is not null and v_settings.deduplication_until is not null then
        raise exception using
            errcode = '22023',
            message = format('queue %L has either a deduplication_window or a deduplication_until', i_settings.queue_name),
            hint = 'set the other to null in the same call';
    end if;
    if v_settings.on_duplicate not in ('keep', 'debounce', 'replace') then
        raise exception using
            errcode = '22023',
            message = format('on_duplicate is %L', v_settings.on_duplicate),
            hint = 'use keep, debounce or replace, or null to keep the first message as it is';
    end if;
    v_settings.on_duplicate := nullif(v_settings.on_duplicate, 'keep');
    if i_options ?| array['deduplication_window', 'deduplication_until', 'on_duplicate'] then
        if i_declared_by is null
            or (v_settings.deduplication_window, v_settings.deduplication_until, v_settings.on_duplicate)
                is distinct from (i_settings.deduplication_window, i_settings.deduplication_until, i_settings.on_duplicate)
        then
            v_settings.deduplication_by := case
                when coalesce(v_settings.deduplication_window::text, v_settings.deduplication_until) is not null then i_declared_by
            end;
        end if;
    end if;
    perform sluice._complete_retry_policy((
        v_settings.max_attempts, v_settings.backoff, v_settings.backoff_base, v_settings.backoff_max,
        v_settings.backoff_jitter, v_settings.backoff_factor
    )::sluice.retry_policy);

    if i_options ?| v_limits then
        v_settings.rate_interval := case when v_settings.rate is not null then coalesce(v_settings.rate_interval, '1 second') end;
        perform sluice._require_limits(v_settings);
        -- A declaration that changes nothing is no new one.
        if i_declared_by is null or sluice._limits(v_settings) <> sluice._limits(i_settings) then
            v_settings.limits_by := case when sluice._limits(v_settings) <> '{}' then i_declared_by end;
        end if;
    end if;
    return v_settings;
end;
$$;

comment on function sluice._queue_settings(sluice.queue_settings, jsonb, text) is
    'Return the settings of a queue with these options, null standing for the default; raise an error for an invalid one.';
revoke execute on function sluice._queue_settings(sluice.queue_settings, jsonb, text) from public;
grant execute on function sluice._queue_settings(sluice.queue_settings, jsonb, text) to sluice_admin;
