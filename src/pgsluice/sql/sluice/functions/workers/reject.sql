create or replace function sluice.reject(
    queue_name text, msg_id bigint, read_ct integer, reason text, error text default null,
    enqueued_at timestamptz default null
)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_rejected integer;
begin
    -- One statement, so that a message is always either in the queue or in the dead-letter table. read_ct is the fencing
    -- token: a later claim has a higher one and keeps the message.
    execute format(
        'with dead as (
            delete from pgmq.%I
            where msg_id = $1 and read_ct = $2 and (enqueued_at = $6 or $6 is null)
            returning msg_id, read_ct, enqueued_at, last_read_at, message, headers
        )
        insert into sluice.dead_letter_message (
            queue_name, msg_id, read_ct, enqueued_at, last_read_at, message, headers, reason, error,
            attempts, first_failed_at, worker
        )
        select $3, dead.msg_id, dead.read_ct, dead.enqueued_at, dead.last_read_at, dead.message, dead.headers, $4, $5,
            -- Includes this attempt if it is not recorded; null without a record.
            noted.attempts + (noted.read_ct <> dead.read_ct or noted.state = ''released'')::integer,
            noted.first_failed_at, noted.worker
        from dead
        left join sluice.attempt as noted
            on noted.queue_name = lower($3)
            and noted.msg_id = dead.msg_id
            and noted.enqueued_at = dead.enqueued_at',
        pgmq.format_table_name(queue_name, 'q')
    )
    using msg_id, read_ct, queue_name, reason, error, enqueued_at;
    get diagnostics v_rejected = row_count;
    return v_rejected = 1;
end;
$$;

comment on function sluice.reject(text, bigint, integer, text, text, timestamptz) is
    'Dead-letter a claimed message; false if the claim (msg_id with its read_ct) is stale, or the message has another enqueued_at than the given one.';
revoke execute on function sluice.reject(text, bigint, integer, text, text, timestamptz) from public;
grant execute on function sluice.reject(text, bigint, integer, text, text, timestamptz) to sluice_admin, sluice_reader;

/*
 * failures is a list of objects: ev_id, and reason, error_type, error and trace, which are stored with it. The events are copied from their batch, so nobody
 * can dead-letter an event that the log does not have. The batch is locked, as in pgq._queue_retry: a repetition finds the first dead letters.
 * Those of a log that was dropped and created again have another time. They are found by a range and in its order: without statistics, the planner would read
 * all dead letters of the consumer.
 *
 * Calls: pgq._hold_batch, pgq._events_between_sql. Writes: sluice.dead_letter.
 */
create or replace function sluice.reject(batch_id bigint, failures jsonb, worker text default null)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set max_parallel_workers_per_gather = 0
set jit = off
as $$
declare
    v_batch record;
    v_consumer record;
    v_missing bigint[];
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
    -- A batch has an event twice if its consumer was moved back before the retry: the later one counts.
    execute format(
        'with failed as materialized (
            select f.*
            from jsonb_to_recordset($2) as f (ev_id bigint, reason text, error_type text, error text, trace text)
        ),
        wanted as materialized (
            select distinct on (event.ev_id) event.*
            from (%s) as event
            where (event.ev_owner is null or event.ev_owner = $1)
              and event.ev_id = any (array(select failed.ev_id from failed))
            order by event.ev_id, event.ev_retry desc nulls last
        ),
        dead as (
            insert into sluice.dead_letter_event (
                queue_name, consumer_name, msg_id, read_ct, enqueued_at, ev_txid, ev_type, ev_data,
                ev_extra1, ev_extra2, ev_extra3, ev_extra4, attempts, reason, error_type, error, trace, worker
            )
            select $3, $4, w.ev_id, coalesce(w.ev_retry, 0) + 1, w.ev_time, w.ev_txid, w.ev_type, w.ev_data,
                w.ev_extra1, w.ev_extra2, w.ev_extra3, w.ev_extra4, coalesce(w.ev_retry, 0) + 1,
                coalesce(f.reason, ''rejected''), f.error_type, f.error, f.trace, $5
            from wanted as w
            join failed as f on f.ev_id = w.ev_id
            where not exists (
                select
                from sluice.dead_letter_event as d
                where d.queue_name = $3 and d.consumer_name = $4
                  and d.msg_id between w.ev_id and w.ev_id
                  and d.enqueued_at = w.ev_time
                order by d.queue_name, d.consumer_name, d.msg_id
                offset 0
            )
            order by w.ev_id
            returning 1
        )
        select (select count(*) from dead), array(select f.ev_id from failed as f except select w.ev_id from wanted as w order by 1)',
        pgq._events_between_sql(
            (v_batch.subscriber).sub_queue, (v_batch.standing).pos_last_snapshot, (v_batch.standing).pos_next_snapshot, 1, 1
        )
    )
    using (v_batch.subscriber).sub_id, failures, v_consumer.queue_name, v_consumer.co_name, worker
    into v_dead, v_missing;
    if v_missing <> '{}' then
        raise exception using
            errcode = '22023',
            message = 'event not found',
            detail = format('Batch %s has no event %s.', batch_id, array_to_string(v_missing[1:10], ', ')),
            hint = 'pass the ev_id of events that pgq.get_batch_events() returns for this batch';
    end if;
    return v_dead;
end;
$$;

comment on function sluice.reject(bigint, jsonb, text) is
    'Dead-letter events of an open batch for its consumer; returns how many were not dead-lettered before. The consumer finishes the batch as usual. Failures: a list of objects with ev_id, and reason, error_type, error and trace to store.';
revoke execute on function sluice.reject(bigint, jsonb, text) from public;
grant execute on function sluice.reject(bigint, jsonb, text) to pgq_admin, pgq_reader, sluice_admin, sluice_reader;
