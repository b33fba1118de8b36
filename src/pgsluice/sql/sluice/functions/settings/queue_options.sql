-- Without options a queue has no row: the ids are null then.
create or replace function sluice.queue_options(queue_name text default null)
returns setof sluice.queue_settings
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_registered constant text := case when queue_name is not null then sluice._registered_name(queue_name) end;
    v_none constant sluice.retry_policy := null;
    v_default constant sluice.retry_policy := sluice._complete_retry_policy(v_none);
    v_queue record;
    v_settings sluice.queue_settings;
    v_policy sluice.retry_policy;
begin
    for v_queue in
        select m.queue_name as name, s as settings
        from pgmq.meta as m
        left join sluice.queue_settings as s on s.queue_name = m.queue_name
        where v_registered is null or m.queue_name = v_registered
        order by m.queue_name
    loop
        v_settings := v_queue.settings;
        v_policy := (
            v_settings.max_attempts, v_settings.backoff, v_settings.backoff_base, v_settings.backoff_max,
            v_settings.backoff_jitter, v_settings.backoff_factor
        )::sluice.retry_policy;
        -- Most queues have no policy of their own.
        if v_policy is null then
            v_policy := v_default;
        else
            v_policy := sluice._complete_retry_policy(v_policy);
        end if;
        v_settings.queue_name := v_queue.name;
        v_settings.queue_table := lower('q_' || v_queue.name);
        v_settings.max_attempts := v_policy.max_attempts;
        v_settings.backoff := v_policy.backoff;
        v_settings.backoff_base := v_policy.backoff_base;
        v_settings.backoff_max := v_policy.backoff_max;
        v_settings.backoff_jitter := v_policy.backoff_jitter;
        v_settings.backoff_factor := v_policy.backoff_factor;
        return next v_settings;
    end loop;
end;
$$;

comment on function sluice.queue_options(text) is
    'Return the options of one queue or of all, by name, with the defaults of its retry policy; null: none.';
revoke execute on function sluice.queue_options(text) from public;
grant execute on function sluice.queue_options(text) to sluice_admin, sluice_monitor, sluice_reader, sluice_writer;
