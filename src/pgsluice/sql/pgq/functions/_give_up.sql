/*
 * The lag in time is the age of the oldest event that the consumer has not finished. A clock set forward, or a stopped ticker,
 * makes one long gap between two ticks, which alone is no lag: of each gap, at most half of the limit counts. An idle log has
 * no ticks, so it is ticked here when a consumer is behind by half of the limit.
 *
 * The caller holds the lock of the ticks. A consumer that another session is moving is active: its locked row is skipped. Positions
 * are read after the locks, so none moves meanwhile.
 */
create or replace function pgq._give_up(i_queue_id integer, i_segments integer[])
returns setof text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_policy sluice.log_policy;
    v_locked integer[];
    v_reader record;
    v_position pgq.position_0;
    v_last pgq.tick;
    v_names text[];
    v_bytes bigint[];
    v_pinned_bytes bigint;
    v_lag_events bigint;
    v_lag_time interval;
    v_ticked_time interval;
    v_reason text;
begin
    select p.* into v_policy from sluice.log_policy as p where p.queue_id = i_queue_id;
    if v_policy.max_lag_bytes is null and v_policy.max_lag_events is null and v_policy.max_lag_time is null then
        return;
    end if;
    v_last := pgq._last_tick(i_queue_id);
    if v_policy.max_lag_bytes is not null then
        select array_agg(p.consumer_name), array_agg(p.bytes)
        into v_names, v_bytes
        from pgq._pinned_bytes(i_queue_id, i_segments) as p;
    end if;
    select array_agg(l.sub_key)
    into v_locked
    from (
        select s.sub_key
        from pgq.subscriber as s
        join pgq.consumer as c on c.co_id = s.sub_consumer
        where s.sub_queue = i_queue_id
          and c.co_name <> all (v_policy.keepers)
        for update of s skip locked
    ) as l;
    for v_reader in
        with reader as materialized (
            select s.sub_key, s.sub_ledger, c.co_name, p as position, row_number() over (order by c.co_name) as number,
                p.pos_last_snapshot, s.sub_id
            from pgq.subscriber as s
            join pgq.consumer as c on c.co_id = s.sub_consumer
            cross join lateral pgq._position(s.sub_key, s.sub_ledger) as p
            where s.sub_key = any (v_locked) and p.pos_last_tick is not null and p.pos_lost is null
        ),
        oldest as materialized (
            select case
                when v_policy.max_lag_time is not null and count(*) > 0
                    then pgq._oldest_events(
                        i_queue_id, array_agg(r.pos_last_snapshot order by r.number), array_agg(r.sub_id order by r.number)
                    )
            end as event_at
            from reader as r
        )
        select r.*, clock_timestamp() - oldest.event_at[r.number] as lag_time
        from reader as r
        cross join oldest
        order by r.number
    loop
        v_position := v_reader.position;
        v_lag_events := v_last.tick_event_seq - v_position.pos_last_seq;
        v_lag_time := v_reader.lag_time;
        if v_lag_time > v_policy.max_lag_time / 2 and v_last.tick_time < clock_timestamp() - v_policy.max_lag_time / 4
            and exists (
                select from pgq.queue as q where q.queue_id = i_queue_id and not q.queue_external_ticker and not q.queue_ticker_paused
            )
        then
            perform pgq._take_tick(i_queue_id);
            v_last := pgq._last_tick(i_queue_id);
        end if;
        v_ticked_time := null;
        if v_lag_time > v_policy.max_lag_time then
            execute format(
                'select sum(least(greatest(g.gap, interval ''0''), $2))
                 from (select t.tick_time - lag(t.tick_time) over (order by t.tick_id) as gap from pgq.%I as t where t.tick_id >= $1) as g',
                format('tick_%s', i_queue_id)
            )
            using v_position.pos_last_tick, v_policy.max_lag_time / 2
            into v_ticked_time;
        end if;
        v_pinned_bytes := v_bytes[array_position(v_names, v_reader.co_name)];
        v_reason := case
            when v_pinned_bytes > v_policy.max_lag_bytes
                then format('lag of %s bytes exceeds the limit of %s', v_pinned_bytes, v_policy.max_lag_bytes)
            when v_lag_events > v_policy.max_lag_events
                then format('lag of %s events exceeds the limit of %s', v_lag_events, v_policy.max_lag_events)
            when v_ticked_time > v_policy.max_lag_time
                then format('lag of %s exceeds the limit of %s', v_lag_time, v_policy.max_lag_time)
        end;
        continue when v_reason is null;
        v_position.pos_lost := v_reason;
        v_position.pos_batch := null;
        v_position.pos_next_tick := null;
        v_position.pos_next_time := null;
        v_position.pos_next_seq := null;
        v_position.pos_next_snapshot := null;
        perform pgq._move(v_reader.sub_ledger, v_position);
        update sluice.share_group as g set lost = v_reason where g.sub_key = v_reader.sub_key;
        return next format('consumer %s: %s', v_reader.co_name, v_reason);
    end loop;
end;
$$;

comment on function pgq._give_up(integer, integer[]) is
    'Give up the positions of consumers whose lag exceeds the policy of the log; returns the consumers with reasons.';
revoke execute on function pgq._give_up(integer, integer[]) from public;
grant execute on function pgq._give_up(integer, integer[]) to pgq_admin, sluice_admin;
