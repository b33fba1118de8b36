-- The caller holds the row of the log and its ticking lock, in READ COMMITTED: no position moves back meanwhile.
--
-- Checked first under a weak lock that blocks no other session, and again under access exclusive: transactions that
-- inserted have ended by then, and the second check, a statement after the lock, sees their rows.
create or replace function pgq._reclaim(i_queue_id integer, i_number integer)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set max_parallel_workers_per_gather = 0
as $$
declare
    v_events text := format('event_%s_%s', i_queue_id, i_number);
    v_ticks text := format('tick_%s_%s', i_queue_id, i_number);
    -- A batch reads all segments, so busy consumers would block every segment forever. So a segment that has not been
    -- needed for two rotation periods is waited for: concurrent readers wait that long at most.
    v_wait_ms_max constant integer := 100;
    v_span record := pgq._segment_span(i_queue_id, i_number);
    v_use record;
    v_is_recent boolean;
    v_first bigint;
begin
    v_use := pgq._segment_use(i_queue_id, i_number);
    if v_use.reason is not null then
        return v_use.reason;
    end if;
    select v_span.last_time >= clock_timestamp() - 2 * q.queue_rotation_period
    into v_is_recent
    from pgq.queue as q
    where q.queue_id = i_queue_id;
    if not pgq._lock_segment(
        i_queue_id, i_number, 'access exclusive', case when v_is_recent then 0 else v_wait_ms_max end
    ) then
        -- The session that held the lock may have ended by now.
        return coalesce(pgq._locked_by(i_queue_id, i_number), 'locked');
    end if;
    v_use := pgq._segment_use(i_queue_id, i_number);
    if v_use.reason is not null then
        return v_use.reason;
    end if;

    -- A tick promises that all events after it are kept, to consumers that are moved to it by number. Usually the next
    -- tick after this segment sees all of its events. A transaction that wrote here and ended later invalidates the
    -- ticks before its end.
    execute format(
        'select t.tick_id
         from pgq.%1$I as t
         where t.tick_id > $1
           and not exists (select from only pgq.%2$I as e where e.ev_txid >= pg_snapshot_xmax(t.tick_snapshot))
           and not exists (
               select from only pgq.%2$I as e where e.ev_txid = any (array(select pg_snapshot_xip(t.tick_snapshot)))
           )
         order by t.tick_id
         limit 1',
        format('tick_%s', i_queue_id), v_events
    )
    using coalesce(v_span.last_tick, 0)
    into v_first;
    execute format('truncate only pgq.%I, only pgq.%I', v_events, v_ticks);
    execute format('delete from pgq.%I as t where t.tick_id < $1', format('tick_%s', i_queue_id)) using v_first;
    return null;
exception
    when object_in_use then
        return 'this session reads it';
end;
$$;

comment on function pgq._reclaim(integer, integer) is
    'Truncate a segment that is not needed and not locked; returns the reason if it is kept, else null.';
revoke execute on function pgq._reclaim(integer, integer) from public;
grant execute on function pgq._reclaim(integer, integer) to pgq_admin, sluice_admin;
