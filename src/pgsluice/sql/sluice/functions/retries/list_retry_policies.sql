create or replace function sluice.list_retry_policies()
returns table (
    queue_name text, max_attempts integer, backoff text, backoff_base interval, backoff_max interval, backoff_jitter boolean,
    backoff_factor double precision, is_default boolean
)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select m.queue_name, p.max_attempts, p.backoff, p.backoff_base, p.backoff_max, p.backoff_jitter, p.backoff_factor,
        p.queue_name is null
    from pgmq.meta as m
    cross join lateral sluice._retry_settings(m.queue_name::text, null::jsonb) as p
    order by m.queue_name;
$$;

comment on function sluice.list_retry_policies() is
    'Return every work queue by name with its retry policy; is_default: it has no policy of its own.';
revoke execute on function sluice.list_retry_policies() from public;
grant execute on function sluice.list_retry_policies() to sluice_admin, sluice_monitor, sluice_reader;
