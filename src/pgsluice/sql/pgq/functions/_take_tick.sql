-- The caller holds the log's ticking lock, which it took in an earlier statement (see pgq.ticker), in READ COMMITTED.
create or replace function pgq._take_tick(i_queue_id integer)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_events bigint;
    v_tick_id bigint;
begin
    perform pgq._require_newer_snapshot(i_queue_id);
    perform pgq._commit_durably();
    -- The number is read before the snapshot: whatever is counted and committed is in the snapshot.
    v_events := pgq._event_seq(i_queue_id);
    execute format(
        'insert into pgq.%I (tick_queue, tick_id, tick_time, tick_snapshot, tick_event_seq)
         values ($1, nextval($2::regclass), clock_timestamp(), pg_current_snapshot(), $3)
         returning tick_id',
        (select format('tick_%s_%s', q.queue_id, q.queue_cur_table) from pgq.queue as q where q.queue_id = i_queue_id)
    )
    using i_queue_id, format('pgq.event_%s_tick_seq', i_queue_id), v_events
    into v_tick_id;
    perform pgq._notify_tick(i_queue_id, v_tick_id);
    return v_tick_id;
end;
$$;

comment on function pgq._take_tick(integer) is
    'Store the current snapshot as the next tick of a log and notify its listeners; returns its tick_id.';
revoke execute on function pgq._take_tick(integer) from public;
grant execute on function pgq._take_tick(integer) to pgq_admin, sluice_admin;
