-- Volatile, although read-only: each statement needs a snapshot taken after it has locked the ledgers. In the caller's
-- snapshot a ledger truncated since would look empty, and a consumer would have no position.
create or replace function pgq.get_consumer_info(
    i_queue_name text, i_consumer_name text,
    out queue_name text, out consumer_name text, out lag interval, out last_seen interval, out last_tick bigint,
    out current_batch bigint, out next_tick bigint, out pending_events bigint
)
returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue_id integer;
begin
    for v_queue_id in
        select q.queue_id
        from pgq.queue as q
        where (i_queue_name is null or q.queue_name = i_queue_name)
          and exists (select from pgq.subscriber as s where s.sub_queue = q.queue_id)
        order by q.queue_name
    loop
        begin
            return query
            with log as materialized (
                select q.queue_id, q.queue_name, (pgq._last_tick(q.queue_id)).tick_event_seq
                from pgq.queue as q
                where q.queue_id = v_queue_id
            )
            select log.queue_name, c.co_name,
                clock_timestamp() - s.pos_last_time,
                clock_timestamp() - s.pos_active,
                s.pos_last_tick, s.pos_batch, s.pos_next_tick,
                log.tick_event_seq - s.pos_last_seq
            from pgq.standing as s
            join log on log.queue_id = s.sub_queue
            join pgq.consumer as c on c.co_id = s.sub_consumer
            where i_consumer_name is null or c.co_name = i_consumer_name
            order by c.co_name;
            -- The rollback releases the locks: one transaction cannot hold those of thousands of logs.
            raise sqlstate 'RL000';
        exception
            when sqlstate 'RL000' then
                null;
        end;
    end loop;
end;
$$;

comment on function pgq.get_consumer_info(text, text) is
    'Return position and lag of one consumer of one event log; null for either means all.';
revoke execute on function pgq.get_consumer_info(text, text) from public;
grant execute on function pgq.get_consumer_info(text, text) to public;

create or replace function pgq.get_consumer_info(
    i_queue_name text,
    out queue_name text, out consumer_name text, out lag interval, out last_seen interval, out last_tick bigint,
    out current_batch bigint, out next_tick bigint, out pending_events bigint
)
returns setof record
language sql
set search_path = pg_catalog, pg_temp
as $$
    select * from pgq.get_consumer_info(i_queue_name, null);
$$;

comment on function pgq.get_consumer_info(text) is
    'Return position and lag of all consumers of one event log, by name.';
revoke execute on function pgq.get_consumer_info(text) from public;
grant execute on function pgq.get_consumer_info(text) to public;

create or replace function pgq.get_consumer_info(
    out queue_name text, out consumer_name text, out lag interval, out last_seen interval, out last_tick bigint,
    out current_batch bigint, out next_tick bigint, out pending_events bigint
)
returns setof record
language sql
set search_path = pg_catalog, pg_temp
as $$
    select * from pgq.get_consumer_info(null, null);
$$;

comment on function pgq.get_consumer_info() is
    'Return position and lag of all consumers, by event log and name.';
revoke execute on function pgq.get_consumer_info() from public;
grant execute on function pgq.get_consumer_info() to public;
