create or replace function sluice.set_log_policy(
    queue_name text,
    max_lag_bytes bigint default null, max_lag_events bigint default null, max_lag_time interval default null,
    keepers text[] default '{}'
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
begin
    v_queue_id := (pgq._require_log(queue_name)).queue_id;
    if max_lag_bytes <= 0 or max_lag_events <= 0 or max_lag_time <= '0' then
        raise exception using
            errcode = '22023',
            message = format('a limit for the consumers of event log %L is not positive', queue_name),
            hint = 'omit a limit, or pass null, for none';
    end if;
    if keepers is null or array_position(keepers, null) is not null then
        raise exception using
            errcode = '22004',
            message = 'the name of a keeper is null',
            hint = 'pass an empty array for no keepers';
    end if;
    insert into sluice.log_policy as p (queue_id, max_lag_bytes, max_lag_events, max_lag_time, keepers)
    values (
        v_queue_id, set_log_policy.max_lag_bytes, set_log_policy.max_lag_events, set_log_policy.max_lag_time,
        array(select distinct k.name from unnest(set_log_policy.keepers) as k (name) order by 1)
    )
    on conflict on constraint log_policy_pkey do update
    set max_lag_bytes = excluded.max_lag_bytes,
        max_lag_events = excluded.max_lag_events,
        max_lag_time = excluded.max_lag_time,
        keepers = excluded.keepers;
end;
$$;

comment on function sluice.set_log_policy(text, bigint, bigint, interval, text[]) is
    'Set the lag at which a rotation may drop consumers of an event log, and the keepers for which it always keeps events; no limit: it waits for all.';
revoke execute on function sluice.set_log_policy(text, bigint, bigint, interval, text[]) from public;
grant execute on function sluice.set_log_policy(text, bigint, bigint, interval, text[]) to pgq_admin, sluice_admin;
