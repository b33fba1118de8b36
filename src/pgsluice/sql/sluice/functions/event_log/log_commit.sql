-- Security definer: a reader may move its own position, but may not write to the ledgers.
create or replace function sluice.log_commit(log_name text, consumer_name text, tick_id bigint)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_subscriber record;
    v_position pgq.position_0;
    v_tick pgq.tick;
begin
    select s.sub_key, s.sub_queue, s.sub_ledger
    into v_subscriber
    from pgq.subscriber as s
    join pgq.queue as q on q.queue_id = s.sub_queue
    join pgq.consumer as c on c.co_id = s.sub_consumer
    where q.queue_name = log_commit.log_name
      and c.co_name = consumer_name
    for no key update of s;
    if not found then
        return false;
    end if;
    perform pgq._refuse_group(v_subscriber.sub_key);
    v_position := pgq._position(v_subscriber.sub_key, v_subscriber.sub_ledger);
    perform pgq._refuse_lost(v_subscriber.sub_key, v_position.pos_lost);
    -- Forward only: a stream that replays after a crash commits earlier positions again. An open tick batch belongs to a
    -- reader that uses next_batch under this name; it is not changed.
    if v_position.pos_batch is not null or (v_position.pos_last_tick < log_commit.tick_id) is not true then
        return false;
    end if;
    v_tick := pgq._find_tick(v_subscriber.sub_queue, log_commit.tick_id, false);
    if v_tick.tick_id is null then
        return false;
    end if;
    perform pgq._move(v_subscriber.sub_ledger, pgq._at_tick(v_position, v_tick));
    return true;
end;
$$;

comment on function sluice.log_commit(text, text, bigint) is
    'Move a consumer''s position forward to a tick; false if it is there or further already.';
revoke execute on function sluice.log_commit(text, text, bigint) from public;
grant execute on function sluice.log_commit(text, text, bigint) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;

-- Positions are ticks: the consumer moves to the last one that the snapshot covers, and keeps the events after it.
-- Security definer: as above.
create or replace function sluice.log_commit(log_name text, consumer_name text, upto pg_snapshot)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
    v_tick pgq.tick;
    v_found bigint;
begin
    v_queue_id := (pgq._require_log(log_name)).queue_id;
    for v_tick in execute format(
        'select t.*
         from pgq.%I as t
         where t.tick_id > (
             select s.pos_last_tick
             from pgq.standing as s
             join pgq.consumer as c on c.co_id = s.sub_consumer
             where s.sub_queue = $1 and c.co_name = $2
         )
         order by t.tick_id',
        format('tick_%s', v_queue_id)
    )
    using v_queue_id, consumer_name
    loop
        exit when not sluice._covers(upto, v_tick.tick_snapshot);
        v_found := v_tick.tick_id;
    end loop;
    return v_found is not null and sluice.log_commit(log_name, consumer_name, v_found);
end;
$$;

comment on function sluice.log_commit(text, text, pg_snapshot) is
    'Move a consumer''s position forward to the last tick that a snapshot covers; false if it is there or further already.';
revoke execute on function sluice.log_commit(text, text, pg_snapshot) from public;
grant execute on function sluice.log_commit(text, text, pg_snapshot) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
