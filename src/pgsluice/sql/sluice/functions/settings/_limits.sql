create or replace function sluice._limits(i_settings sluice.queue_settings)
returns jsonb
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select jsonb_strip_nulls(jsonb_build_object(
        'fleet_concurrency', i_settings.fleet_concurrency,
        'key_concurrency', i_settings.key_concurrency,
        'rate', i_settings.rate,
        'rate_interval', i_settings.rate_interval,
        'when_waiting', i_settings.when_waiting,
        'priority_weights', i_settings.priority_weights
    ));
$$;

comment on function sluice._limits(sluice.queue_settings) is
    'Return the limits, key order and priorities of a queue by name; {}: none.';
revoke execute on function sluice._limits(sluice.queue_settings) from public;
grant execute on function sluice._limits(sluice.queue_settings) to sluice_admin, sluice_monitor, sluice_reader;
