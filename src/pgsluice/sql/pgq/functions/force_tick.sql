-- Callable by readers, so it does only what PgQ's does: it advances the event sequence, so that the next ticker call
-- finds enough events.
create or replace function pgq.force_tick(i_queue_name text)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue record;
begin
    select q.queue_id, q.queue_event_seq, q.queue_ticker_max_count, q.queue_external_ticker or q.queue_ticker_paused as is_held
    into v_queue
    from pgq.queue as q
    where q.queue_name = i_queue_name;
    if not found then
        return null;
    end if;
    perform pgq._refuse_restored(v_queue.queue_id);
    if not v_queue.is_held then
        perform setval(
            v_queue.queue_event_seq::regclass,
            nextval(v_queue.queue_event_seq::regclass) + greatest(v_queue.queue_ticker_max_count, 0) * 2::bigint + 1000
        );
    end if;
    return (pgq._last_tick(v_queue.queue_id)).tick_id;
end;
$$;

comment on function pgq.force_tick(text) is
    'Make the next call of the ticker tick this event log whatever its settings; returns the last tick so far, null if there is no such log.';
revoke execute on function pgq.force_tick(text) from public;
grant execute on function pgq.force_tick(text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
