-- Only the given options change. The lag limits are stored where there are any.
--
-- Calls: sluice._with_options. Writes: pgq.queue, sluice.log_policy.
create or replace function sluice.set_log_options(log_name text, options jsonb)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off
as $$
declare
    v_options constant text[] := array[
        'ticker_max_count', 'ticker_max_lag', 'ticker_idle_period', 'ticker_paused', 'rotation_period', 'external_ticker',
        'max_lag_bytes', 'max_lag_events', 'max_lag_time', 'keepers'
    ];
    v_queue_id constant integer := (pgq._require_log(log_name)).queue_id;
    v_old sluice.log_settings;
    v_new sluice.log_settings;
    v_name text;
begin
    -- Locked before it is read, so that concurrent changes of different options both take effect.
    perform from pgq.queue as q where q.queue_id = v_queue_id for no key update;
    v_old := sluice.log_options(log_name);
    v_new := sluice._with_options(v_old, options, v_options, format('event log %L', log_name));
    if array_position(v_new.keepers, null) is not null then
        raise exception using
            errcode = '22004',
            message = 'the name of a keeper is null',
            hint = 'pass an empty array for no keepers';
    end if;
    v_new.keepers := array(select distinct k.name from unnest(v_new.keepers) as k (name) order by 1);
    if v_new is not distinct from v_old then
        return 'unchanged';
    end if;
    if v_new.max_lag_bytes <= 0 or v_new.max_lag_events <= 0 or v_new.max_lag_time <= '0' then
        raise exception using
            errcode = '22023',
            message = format('a limit for the consumers of event log %L is not positive', log_name),
            hint = 'omit a limit, or pass null, for none';
    end if;
    if v_new.ticker_max_count < 0 or least(v_new.ticker_max_lag, v_new.ticker_idle_period, v_new.rotation_period) < '0' then
        raise exception using
            errcode = '22023',
            message = format('an option of event log %L is negative', log_name),
            hint = 'pass 0 or more, or null for the default';
    end if;

    for v_name in
        select o.name from jsonb_object_keys(options) as o (name) where o.name = any (v_options[1:6])
    loop
        execute format(
            'update pgq.queue as q set %I = %s where q.queue_id = $2', 'queue_' || v_name,
            case when options -> v_name = 'null' then 'default' else format('($1).%I', v_name) end
        )
        using v_new, v_queue_id;
    end loop;
    delete from sluice.log_policy as p where p.queue_id = v_queue_id;
    insert into sluice.log_policy (queue_id, max_lag_bytes, max_lag_events, max_lag_time, keepers)
    select v_queue_id, v_new.max_lag_bytes, v_new.max_lag_events, v_new.max_lag_time, v_new.keepers
    where num_nonnulls(v_new.max_lag_bytes, v_new.max_lag_events, v_new.max_lag_time) > 0 or v_new.keepers <> '{}';
    perform sluice.note_action('set_log_options'::text, log_name, options, null::bigint, null::text);
    return 'changed';
end;
$$;

comment on function sluice.set_log_options(text, jsonb) is
    'Change the given options of an event log, null for the default: those of pgq.set_queue_config, the lag at which a rotation drops consumers, and the keepers for which it always keeps events. Returns changed or unchanged.';
revoke execute on function sluice.set_log_options(text, jsonb) from public;
grant execute on function sluice.set_log_options(text, jsonb) to pgq_admin, sluice_admin;
