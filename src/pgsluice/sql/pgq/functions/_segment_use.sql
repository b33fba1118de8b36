-- Decided by the rows, not by the time when the segment was current: a stalled insert, or one with an old snapshot, may
-- have added its row at any time. A position needs a row if its snapshot does not see the row's transaction. It needs a
-- tick unless it has passed it. The newest tick counts as a position too: new consumers start there.
--
-- A consumer may be moved back by up to a rotation period, for example after its own data was restored from a backup.
--
-- Always through the index, whatever the statistics: an empty result must not cost a scan of millions of rows.
create or replace function pgq._segment_use(i_queue_id integer, i_number integer, out consumers text[], out reason text)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set max_parallel_workers_per_gather = 0
as $$
declare
    v_events text := format('event_%s_%s', i_queue_id, i_number);
    v_span record := pgq._segment_span(i_queue_id, i_number);
    v_missing text;
    v_period interval;
    v_is_new boolean;
    v_last_time timestamptz := v_span.last_time;
begin
    -- No move: its ledger was truncated after this statement began.
    execute format(
        'select array_agg(c.co_name order by c.co_name)
         from pgq.standing as s
         join pgq.consumer as c on c.co_id = s.sub_consumer
         where s.sub_queue = $1
           and s.pos_lost is null
           and (
               s.pos_move is null
               or s.pos_last_tick < $2
               or s.pos_last_tick is not null and s.pos_last_snapshot is null
               or exists (select from only pgq.%1$I as e where e.ev_txid >= pg_snapshot_xmax(s.pos_last_snapshot))
               or exists (
                   select from only pgq.%1$I as e where e.ev_txid = any (array(select pg_snapshot_xip(s.pos_last_snapshot)))
               )
           )',
        v_events
    )
    using i_queue_id, v_span.last_tick
    into consumers;
    execute format(
        'select exists (select from only pgq.%1$I as e where e.ev_txid >= pg_snapshot_xmax($1))
            or exists (select from only pgq.%1$I as e where e.ev_txid = any (array(select pg_snapshot_xip($1))))',
        v_events
    )
    using (pgq._last_tick(i_queue_id)).tick_snapshot
    into v_is_new;
    if v_last_time > clock_timestamp() then
        -- Taken before the clock was set back. It is at least as old as the oldest tick taken since.
        execute format(
            'select coalesce(min(t.tick_time), $1) from pgq.%I as t where t.tick_id > $2 and t.tick_time < $1',
            format('tick_%s', i_queue_id)
        )
        using v_last_time, v_span.last_tick
        into v_last_time;
    end if;
    select q.queue_rotation_period into v_period from pgq.queue as q where q.queue_id = i_queue_id;
    select string_agg(k.name, ', ' order by k.name)
    into v_missing
    from sluice.log_policy as p
    cross join unnest(p.keepers) as k (name)
    where p.queue_id = i_queue_id
      and not exists (
          select
          from pgq.subscriber as s
          join pgq.consumer as c on c.co_id = s.sub_consumer
          where s.sub_queue = i_queue_id and c.co_name = k.name
      );

    if v_missing is not null then
        reason := format('kept for %s, not registered yet', v_missing);
    elsif consumers is not null then
        reason := format('not yet read by %s', array_to_string(consumers, ', '));
    elsif v_is_new then
        reason := 'it has events that no tick covers yet';
    elsif v_last_time > clock_timestamp() - v_period then
        reason := 'a consumer may move back to it within its rotation period';
    end if;
end;
$$;

comment on function pgq._segment_use(integer, integer) is
    'Return the consumers that need a segment, and the reason to keep it; no reason: it is not needed.';
revoke execute on function pgq._segment_use(integer, integer) from public;
grant execute on function pgq._segment_use(integer, integer) to pgq_admin, sluice_admin;
