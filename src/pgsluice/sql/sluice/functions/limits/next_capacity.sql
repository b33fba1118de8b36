-- A claim without capacity is not notified when there is some, and ready messages are not announced again. So waiting
-- consumers call this. It takes no lock: the result is a time to poll, not a promise.
create or replace function sluice.next_capacity(queue_name text)
returns timestamptz
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_pause constant interval := '250 ms';
    v_limits sluice.queue_settings;
    v_now timestamptz := clock_timestamp();
    v_capacity record;
    v_is_visible boolean;
begin
    select l.*
    into v_limits
    from sluice.queue_settings as l
    where l.queue_table = pgmq.format_table_name(next_capacity.queue_name, 'q')
      and l.paused_at is null; -- a pause ends with a notification
    if num_nonnulls(
        v_limits.fleet_concurrency, v_limits.key_concurrency, v_limits.rate, v_limits.when_waiting
    ) = 0 then
        return null;
    end if;
    v_capacity := sluice._capacity(v_limits, v_now);
    if v_capacity.capacity > 0 and v_limits.key_concurrency is null and v_limits.when_waiting is null then
        return null;
    end if;
    execute format(
        'select
            exists (select from pgmq.%1$I as q where q.vt <= q.enqueued_at and q.vt <= $1 order by q.msg_id limit 1)
            or exists (select from pgmq.%1$I as q where q.vt > q.enqueued_at and q.vt <= $1 order by q.vt limit 1)',
        v_limits.queue_table
    )
    using v_now
    into v_is_visible;
    if not v_is_visible then
        return null;
    end if;
    -- The time at which a slot or a key becomes free depends on its holder.
    return coalesce(v_capacity.free_at, v_now + v_pause);
end;
$$;

comment on function sluice.next_capacity(text) is
    'Return when to claim again from a queue whose limits block visible messages: the time at which the rate has capacity again, or a short poll; null: no message is blocked.';
revoke execute on function sluice.next_capacity(text) from public;
grant execute on function sluice.next_capacity(text) to sluice_admin, sluice_reader;
