create or replace function pgq.get_consumer_info(
    i_queue_name text, i_consumer_name text,
    out queue_name text, out consumer_name text, out lag interval, out last_seen interval, out last_tick bigint,
    out current_batch bigint, out next_tick bigint, out pending_events bigint
)
returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
    select q.queue_name, c.co_name,
        clock_timestamp() - s.pos_last_time,
        clock_timestamp() - s.pos_active,
        s.pos_last_tick, s.pos_batch, s.pos_next_tick,
        (pgq._last_tick(s.sub_queue)).tick_event_seq - s.pos_last_seq
    from pgq.standing as s
    join pgq.queue as q on q.queue_id = s.sub_queue
    join pgq.consumer as c on c.co_id = s.sub_consumer
    where (i_queue_name is null or q.queue_name = i_queue_name)
      and (i_consumer_name is null or c.co_name = i_consumer_name)
    order by q.queue_name, c.co_name;
$$;

comment on function pgq.get_consumer_info(text, text) is
    'Position and lag of one consumer of one event log; null for either means all.';
revoke execute on function pgq.get_consumer_info(text, text) from public;
grant execute on function pgq.get_consumer_info(text, text) to public;

create or replace function pgq.get_consumer_info(
    i_queue_name text,
    out queue_name text, out consumer_name text, out lag interval, out last_seen interval, out last_tick bigint,
    out current_batch bigint, out next_tick bigint, out pending_events bigint
)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select * from pgq.get_consumer_info(i_queue_name, null);
$$;

comment on function pgq.get_consumer_info(text) is
    'Position and lag of every consumer of one event log, by name.';
revoke execute on function pgq.get_consumer_info(text) from public;
grant execute on function pgq.get_consumer_info(text) to public;

create or replace function pgq.get_consumer_info(
    out queue_name text, out consumer_name text, out lag interval, out last_seen interval, out last_tick bigint,
    out current_batch bigint, out next_tick bigint, out pending_events bigint
)
returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select * from pgq.get_consumer_info(null, null);
$$;

comment on function pgq.get_consumer_info() is
    'Position and lag of every consumer, by event log and name.';
revoke execute on function pgq.get_consumer_info() from public;
grant execute on function pgq.get_consumer_info() to public;
