-- Security definer: a reader may move its own position, but may not write to the ledgers.
create or replace function sluice.log_start(
    log_name text, consumer_name text, starting text, out tick_id bigint, out tick_snapshot pg_snapshot
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_tick pgq.tick;
    v_subscriber record;
    v_position pgq.position_0;
begin
    v_queue_id := (pgq._require_log(log_name)).queue_id;

    if starting = 'committed' and not exists (
        select
        from pgq.subscriber as s
        join pgq.consumer as c on c.co_id = s.sub_consumer
        where s.sub_queue = v_queue_id and c.co_name = consumer_name
    ) then
        raise exception using
            errcode = 'PQ002',
            message = format('Not subscriber to queue: %s/%s', log_name, coalesce(consumer_name, 'NULL')),
            hint = 'start from earliest or latest, which registers it, or give the name of a consumer that is registered';
    end if;

    -- Registered first: from here on no rotation can remove the ticks that are read below.
    if consumer_name is not null then
        perform pgq._commit_durably();
        perform pgq.register_consumer(log_name, consumer_name);
        select s.sub_key, s.sub_ledger
        into v_subscriber
        from pgq.subscriber as s
        join pgq.consumer as c on c.co_id = s.sub_consumer
        where s.sub_queue = v_queue_id
          and c.co_name = consumer_name
        for no key update of s;
        perform pgq._refuse_group(v_subscriber.sub_key);
        v_position := pgq._position(v_subscriber.sub_key, v_subscriber.sub_ledger);
        perform pgq._refuse_lost(v_subscriber.sub_key, v_position.pos_lost);
    end if;

    if starting = 'earliest' then
        v_tick := pgq._tick_after(v_queue_id, 0::bigint);
    elsif starting ~ '^[0-9]+$' then
        v_tick := sluice._standing_tick(v_queue_id, starting::bigint);
    elsif starting not in ('latest', 'committed') then
        -- Transactions committed at or after the time are seen by later ticks only.
        execute format(
            'select t.* from pgq.%I as t where t.tick_time <= $1 order by t.tick_id desc limit 1', format('tick_%s', v_queue_id)
        )
        using starting::timestamptz
        into v_tick;
        if v_tick.tick_id is null then
            v_tick := pgq._tick_after(v_queue_id, 0::bigint);
        end if;
    elsif v_position.pos_last_tick is not null then
        -- The position of a registered consumer is 'latest' as of its first call. A repeated call, after a crash before the
        -- first commit, must return the same. It is also the committed position.
        v_tick := sluice._standing_tick(v_queue_id, v_position.pos_last_tick);
    else
        v_tick := pgq._last_tick(v_queue_id);
    end if;
    if v_tick.tick_id is null then
        raise exception using
            errcode = 'PQ004',
            message = format('event log %L keeps no tick %s', log_name, starting),
            detail = 'The events after it may be gone.',
            hint = 'start from earliest, the oldest tick that is kept, or set failOnDataLoss to false';
    end if;

    -- A consumer that requests an earlier position moves back, so that the events it will read are kept.
    if v_position.pos_last_tick > v_tick.tick_id then
        perform pgq._move(v_subscriber.sub_ledger, pgq._at_tick(v_position, v_tick));
    end if;
    tick_id := v_tick.tick_id;
    tick_snapshot := v_tick.tick_snapshot;
end;
$$;

comment on function sluice.log_start(text, text, text) is
    'Return the tick to start reading at, and its snapshot: earliest, latest, committed, the number of a tick, or a time, for the last tick at or before it or else the oldest; a given consumer is registered there, which keeps its events.';
revoke execute on function sluice.log_start(text, text, text) from public;
grant execute on function sluice.log_start(text, text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
