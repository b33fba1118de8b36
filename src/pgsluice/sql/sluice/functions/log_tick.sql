-- Unlike pgq.ticker, which decides whether it is time, this always leaves a tick that covers what was
-- committed before the call: a stream that reads "all that is there now" and then ends needs one.
-- Security definer: it writes into pgq.tick.
create or replace function sluice.log_tick(queue_name text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_lock_class constant integer := 1885827956; -- pgq.ticker's, and for its reasons
    v_queue record;
    v_last record;
    v_events bigint;
    v_tick record;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using
            errcode = 'PQ004',
            message = format(
                'cannot tick event log %L in a %s transaction', queue_name, current_setting('transaction_isolation')
            ),
            hint = 'tick in a READ COMMITTED transaction';
    end if;
    select q.queue_id, q.queue_tick_seq, q.queue_external_ticker or q.queue_ticker_paused as is_held
    into v_queue
    from pgq.queue as q
    where q.queue_name = log_tick.queue_name;
    if not found then
        raise exception using
            errcode = 'PQ001',
            message = format('event log %L does not exist', queue_name),
            hint = format('create it with pgq.create_queue(%L)', queue_name);
    end if;

    -- Waits, where the ticker gives up: a tick under way elsewhere may have its snapshot from before this
    -- call. The snapshot of the insert below is taken after the lock, so ticks stay in snapshot order.
    perform pg_advisory_xact_lock(v_lock_class, v_queue.queue_id);
    select t.tick_id, t.tick_event_seq, t.tick_snapshot
    into v_last
    from pgq.tick as t
    where t.tick_queue = v_queue.queue_id
    order by t.tick_id desc
    limit 1;

    v_events := pgq._event_seq(v_queue.queue_id);
    -- Nothing new: no event was numbered since the last tick, and none that was open then has ended.
    if v_queue.is_held or (
        v_events = v_last.tick_event_seq
        and not exists (
            select
            from pg_snapshot_xip(v_last.tick_snapshot) as running (xid)
            where pg_visible_in_snapshot(running.xid, pg_current_snapshot())
        )
    ) then
        return v_last.tick_id;
    end if;

    insert into pgq.tick (tick_queue, tick_id, tick_time, tick_snapshot, tick_event_seq)
    values (
        v_queue.queue_id, nextval(v_queue.queue_tick_seq::regclass), clock_timestamp(), pg_current_snapshot(), v_events
    )
    returning tick_id, tick_snapshot into v_tick;
    if pg_snapshot_xmin(v_tick.tick_snapshot) < pg_snapshot_xmin(v_last.tick_snapshot)
        or pg_snapshot_xmax(v_tick.tick_snapshot) < pg_snapshot_xmax(v_last.tick_snapshot)
    then
        raise exception using
            errcode = 'PQ004',
            message = format('the snapshot is behind the last tick of event log %L', queue_name),
            detail = 'Its ticks are from another server.',
            hint = 'this is a restored dump: drop the log and create it again once its events are no longer needed';
    end if;
    return v_tick.tick_id;
end;
$$;

comment on function sluice.log_tick(text) is
    'Tick an event log now if anything is new; returns the newest tick, which covers all that was committed before.';
revoke execute on function sluice.log_tick(text) from public;
grant execute on function sluice.log_tick(text) to sluice_admin;
