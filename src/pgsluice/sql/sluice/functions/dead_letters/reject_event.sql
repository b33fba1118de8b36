/*
 * The event is copied from its batch, so nobody can dead-letter an event that the log does not have. The batch is locked, as
 * in pgq._queue_retry: a repetition finds the first dead letter.
 *
 * Calls: pgq._hold_batch, pgq._events_between_sql. Writes: sluice.dead_letter.
 */
create or replace function sluice.reject_event(
    batch_id bigint,
    event_id bigint,
    reason text,
    error_type text default null,
    error text default null,
    trace text default null,
    worker text default null
)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set max_parallel_workers_per_gather = 0
set jit = off
as $$
declare
    v_batch record;
    v_consumer record;
    v_found bigint;
    v_dead integer;
begin
    v_batch := pgq._hold_batch(batch_id);
    if (v_batch.standing).pos_batch is null then
        raise exception using
            errcode = 'PQ003',
            message = 'batch not found',
            detail = format('The batch id is %s.', batch_id),
            hint = 'open a batch with pgq.next_batch(); a finished one cannot be read again';
    end if;
    -- Cooperative consumers share the dead letters of their main consumer.
    select q.queue_name, c.co_name
    into v_consumer
    from pgq.subscriber as s
    join pgq.queue as q on q.queue_id = s.sub_queue
    join pgq.consumer as c on c.co_id = s.sub_consumer
    where s.sub_key = coalesce((v_batch.subscriber).sub_main, (v_batch.subscriber).sub_key);
    execute format(
        'with wanted as materialized (
            select event.*
            from (%s) as event
            where (event.ev_owner is null or event.ev_owner = $1) and event.ev_id = $2
            order by event.ev_retry desc nulls last
            limit 1
        ),
        dead as (
            insert into sluice.dead_letter_event (
                queue_name, consumer_name, msg_id, read_ct, enqueued_at, ev_txid, ev_type, ev_data,
                ev_extra1, ev_extra2, ev_extra3, ev_extra4, attempts, reason, error_type, error, trace, worker
            )
            select $3, $4, w.ev_id, coalesce(w.ev_retry, 0) + 1, w.ev_time, w.ev_txid, w.ev_type, w.ev_data,
                w.ev_extra1, w.ev_extra2, w.ev_extra3, w.ev_extra4, coalesce(w.ev_retry, 0) + 1, $5, $6, $7, $8, $9
            from wanted as w
            where not exists (
                select
                from sluice.dead_letter_event as d
                where d.queue_name = $3 and d.consumer_name = $4 and d.msg_id = w.ev_id
                offset 0
            )
            returning 1
        )
        select (select count(*) from wanted), (select count(*) from dead)',
        pgq._events_between_sql(
            (v_batch.subscriber).sub_queue, (v_batch.standing).pos_last_snapshot, (v_batch.standing).pos_next_snapshot, 1, 1
        )
    )
    using (v_batch.subscriber).sub_id, event_id, v_consumer.queue_name, v_consumer.co_name, reason, error_type, error, trace, worker
    into v_found, v_dead;
    if v_found = 0 then
        raise exception using
            errcode = '22023',
            message = 'event not found',
            detail = format('Batch %s has no event %s.', batch_id, event_id),
            hint = 'pass the ev_id of an event that pgq.get_batch_events() returns for this batch';
    end if;
    return v_dead;
end;
$$;

comment on function sluice.reject_event(bigint, bigint, text, text, text, text, text) is
    'Dead-letter an event of an open batch for its consumer; returns 1, or 0 if it was dead-lettered before. The consumer finishes the batch as usual.';
revoke execute on function sluice.reject_event(bigint, bigint, text, text, text, text, text) from public;
grant execute on function sluice.reject_event(bigint, bigint, text, text, text, text, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
