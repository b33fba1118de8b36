/*
 * Reasons that stop every claim from a queue: a pause, a lock on its table or its limits, and reached limits. sluice._capacity is not
 * called, because it resets the ledger of starts if the clock was set back.
 *
 * Calls: sluice._in_flight, sluice._session. Reads: sluice.queue_settings, sluice.queue_start by two index lookups, pg_locks.
 */
create or replace function sluice._explain_claims(i_queue_name text)
returns table (at timestamptz, cause text, detail jsonb)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limits_class constant integer := 1936484717;
    v_table constant text := pgmq.format_table_name(i_queue_name, 'q');
    v_now constant timestamptz := clock_timestamp();
    v_limits sluice.queue_settings;
    v_last sluice.queue_start;
    v_first sluice.queue_start;
    v_started bigint;
begin
    select l.* into v_limits from sluice.queue_settings as l where l.queue_table = v_table;
    if v_limits.paused_at is not null then
        return query values (
            v_limits.paused_at, 'paused', jsonb_build_object('paused_by', v_limits.paused_by, 'pause_reason', v_limits.pause_reason)
        );
    end if;
    return query
        select null::timestamptz, 'table locked', jsonb_build_object('session', sluice._session(l.pid), 'mode', l.mode)
        from pg_locks as l
        where l.locktype = 'relation'
          and l.database = (select d.oid from pg_database as d where d.datname = current_database())
          and l.relation = format('pgmq.%I', v_table)::regclass
          and l.granted
          and l.pid <> pg_backend_pid()
          and l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock');
    return query
        select null::timestamptz, 'limits locked', jsonb_build_object('session', sluice._session(k.pid))
        from sluice.lock as l
        join pg_locks as k on k.locktype = 'transactionid' and k.transactionid = l.xmax and k.mode = 'ExclusiveLock' and k.granted
        where l.class = v_limits_class and l.id = v_limits.limits_id and k.pid <> pg_backend_pid();
    -- Without a limit the messages in flight are not counted.
    if v_limits.fleet_concurrency is not null then
        if v_limits.fleet_concurrency <= sluice._in_flight(v_table, v_now, v_limits.fleet_concurrency) then
            return query values (
                null::timestamptz, 'concurrency limit', jsonb_build_object('fleet_concurrency', v_limits.fleet_concurrency)
            );
        end if;
    end if;
    if v_limits.rate is not null then
        select s.* into v_last
        from sluice.queue_start as s
        where s.limits_id = v_limits.limits_id
        order by s.started_at desc, s.before desc
        limit 1;
        select s.* into v_first
        from sluice.queue_start as s
        where s.limits_id = v_limits.limits_id and s.started_at > greatest(v_now, v_last.started_at) - v_limits.rate_interval
        order by s.started_at, s.before
        limit 1;
        v_started := coalesce(v_last.before + v_last.started - v_first.before, 0);
        if v_started >= v_limits.rate and v_last.started_at <= v_now + v_limits.rate_interval then
            return query values (
                v_first.started_at + v_limits.rate_interval, 'rate limit',
                jsonb_build_object('rate', v_limits.rate, 'rate_interval', v_limits.rate_interval, 'started', v_started)
            );
        end if;
    end if;
end;
$$;

comment on function sluice._explain_claims(text) is
    'Return the reasons that stop every claim from a queue now.';
revoke execute on function sluice._explain_claims(text) from public;
grant execute on function sluice._explain_claims(text) to sluice_admin;
