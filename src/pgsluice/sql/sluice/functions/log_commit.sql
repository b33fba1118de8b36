-- Security definer: a reader may move its own position, but may not write into pgq.subscription.
create or replace function sluice.log_commit(queue_name text, consumer_name text, tick_id bigint)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Forward only: a stream that replays after a crash reports again what it had reported before. An
    -- open tick batch belongs to someone who reads with next_batch under this name; it is left alone.
    update pgq.subscription as s
    set sub_last_tick = log_commit.tick_id, sub_active = now()
    from pgq.consumer as c, pgq.queue as q, pgq.tick as t
    where c.co_name = consumer_name
      and q.queue_name = log_commit.queue_name
      and s.sub_consumer = c.co_id
      and s.sub_queue = q.queue_id
      and s.sub_batch is null
      and s.sub_last_tick < log_commit.tick_id
      and t.tick_queue = q.queue_id
      and t.tick_id = log_commit.tick_id;
    return found;
end;
$$;

comment on function sluice.log_commit(text, text, bigint) is
    'Move a consumer''s position forward to a tick; false when it stands there or further already.';
revoke execute on function sluice.log_commit(text, text, bigint) from public;
grant execute on function sluice.log_commit(text, text, bigint) to sluice_admin, sluice_reader;
