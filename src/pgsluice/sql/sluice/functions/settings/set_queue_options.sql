/*
 * Only the given options change. Limits change under the lock of the queue, which a build of indexes holds long; other options
 * under that of the row, taken last: a pause never waits for a build. Each change is computed again under its lock, so that
 * concurrent changes of different options both take effect.
 *
 * Workers pass declared_by at their start. Nothing is locked if the stored limits equal the declared ones: the processes of
 * a service start together, and all but the first find them stored.
 *
 * A pause: a claim that began before the commit still returns messages. Its end: the notifier has announced the waiting
 * messages during the pause, and would not announce them again. A new deduplication window applies to keys sent from now
 * on; existing keys keep their expiry.
 *
 * Calls: sluice._registered_name, sluice._queue_settings, sluice._build_limits, sluice.notifier_wake. Writes: sluice.queue_settings,
 * sluice.parked_key.
 */
create or replace function sluice.set_queue_options(queue_name text, options jsonb, declared_by text default null)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_name constant text := sluice._registered_name(queue_name);
    v_old sluice.queue_settings;
    v_new sluice.queue_settings;
    v_is_locked boolean := false;
begin
    if declared_by = '' then
        raise exception using
            errcode = '22023',
            message = 'declared_by is empty',
            hint = 'pass the name of the handler, or null as an operator';
    end if;
    loop
        select s.* into v_old from sluice.queue_settings as s where s.queue_name = v_queue_name;
        v_old.queue_name := v_queue_name;
        v_old.queue_table := pgmq.format_table_name(v_queue_name, 'q');
        if declared_by is not null
            and (case
                when options ?| array['deduplication_window', 'deduplication_until', 'on_duplicate']
                    then v_old.deduplication_by is null
                        and coalesce(v_old.deduplication_window::text, v_old.deduplication_until) is not null
                else v_old.limits_by is null and sluice._limits(v_old) <> '{}'
            end)
        then
            return 'operator';
        end if;
        v_new := sluice._queue_settings(v_old, options, declared_by);
        if v_new is not distinct from v_old then
            return 'unchanged';
        end if;
        -- Also if these limits are stored: another session may be changing them.
        exit when v_is_locked
            or not options ?| array['fleet_concurrency', 'key_concurrency', 'rate', 'rate_interval', 'when_waiting', 'priority_weights'];
        perform pgmq.acquire_queue_lock(v_queue_name);
        v_is_locked := true;
    end loop;
    if v_is_locked then
        perform sluice._build_limits(v_new);
    end if;

    if v_old.limits_id is null then
        insert into sluice.queue_settings (queue_name) values (v_queue_name)
        on conflict on constraint queue_settings_pkey do nothing;
    end if;
    select s.* into v_old from sluice.queue_settings as s where s.queue_name = v_queue_name for no key update;
    v_new := sluice._queue_settings(v_old, options, declared_by);
    update sluice.queue_settings as s
    set paused_at = v_new.paused_at,
        paused_by = v_new.paused_by,
        pause_reason = v_new.pause_reason,
        archive_retention = v_new.archive_retention,
        max_attempts = v_new.max_attempts,
        backoff = v_new.backoff,
        backoff_base = v_new.backoff_base,
        backoff_max = v_new.backoff_max,
        backoff_jitter = v_new.backoff_jitter,
        backoff_factor = v_new.backoff_factor,
        deduplication_window = v_new.deduplication_window,
        deduplication_until = v_new.deduplication_until,
        on_duplicate = v_new.on_duplicate,
        deduplication_by = v_new.deduplication_by,
        fleet_concurrency = v_new.fleet_concurrency,
        key_concurrency = v_new.key_concurrency,
        rate = v_new.rate,
        rate_interval = v_new.rate_interval,
        when_waiting = v_new.when_waiting,
        priority_weights = v_new.priority_weights,
        limits_by = v_new.limits_by
    where s.queue_name = v_queue_name;
    if v_is_locked then
        -- So that the row to lock exists.
        perform sluice._try_lock(1936484717, v_old.limits_id);
    end if;
    if sluice._limits(v_old) <> '{}' and sluice._limits(v_new) = '{}' then
        update sluice.queue_settings as s set limits_id = default where s.queue_name = v_queue_name;
    end if;
    if coalesce(v_old.deduplication_window::text, v_old.deduplication_until) is not null
        and coalesce(v_new.deduplication_window::text, v_new.deduplication_until) is null
    then
        update sluice.queue_settings as s set deduplication_id = default where s.queue_name = v_queue_name;
    end if;
    if v_old.paused_at is not null and v_new.paused_at is null then
        perform sluice.notifier_wake(array[v_queue_name], false);
    end if;
    if declared_by is null then
        perform sluice.note_action(
            'set_queue_options'::text, v_queue_name, options - 'pause_reason', null::bigint, options ->> 'pause_reason'
        );
    end if;
    return 'changed';
end;
$$;

comment on function sluice.set_queue_options(text, jsonb, text) is
    'Change the given options of a queue, null for the default; returns changed or unchanged. With declared_by, the handler that declares limits or deduplication, those set by an operator are kept: operator. sql/sluice/functions/settings/README.md explains them.';
revoke execute on function sluice.set_queue_options(text, jsonb, text) from public;
grant execute on function sluice.set_queue_options(text, jsonb, text) to sluice_admin;
