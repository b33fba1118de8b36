/*
 * The next micro-batch of a stream: one that was claimed and never read to its end, or a new one.
 *
 * A queue hides messages that were read, but a stream must be able to repeat them. So the messages of a micro-batch are
 * hidden with a vt that is unique to it, its mark, in the year 9000: they are found by it in the index of deferred messages;
 * no other consumer claims them; and a change of their vt removes them from the micro-batch. Rejected: a table with a row per
 * claimed message, which doubles the writes and must be kept in step with other changes of the queue.
 *
 * The reader claims first and then records the claim in its own log. If it dies between, this function finds the unrecorded
 * micro-batch and returns it first. A claim repeated after a lost connection returns the same micro-batch.
 *
 * Calls: sluice._lock_queue_stream, pgmq._reader, the queue's reader, sluice.claim_messages. Writes: the queue's table,
 * sluice.queue_stream.
 */
create or replace function sluice.queue_stream_claim(stream_id bigint, from_seq bigint, qty integer)
returns table (seq bigint, messages bigint, first_enqueued_at timestamptz)
language plpgsql
set search_path = pg_catalog, pg_temp
-- The length of a day in an interval depends on the time zone.
set timezone = 'UTC'
as $$
declare
    v_stream sluice.queue_stream := sluice._lock_queue_stream(stream_id, from_seq);
    v_queue text := pgmq._reader(v_stream.queue_name);
    v_now timestamptz := clock_timestamp();
    v_mark timestamptz;
    v_last_seq bigint;
    v_claimed bigint[];
begin
    select min(b.seq) filter (where b.seq > from_seq), max(b.seq)
    into seq, v_last_seq
    from unnest(v_stream.batches) as b;
    if seq is not null then
        messages := (select b.messages from unnest(v_stream.batches) as b where b.seq = queue_stream_claim.seq);
        return next;
        return;
    end if;

    v_mark := timestamptz '9000-01-01 00:00:00+00'
        + nextval('sluice.queue_stream_mark_seq') * interval '1 microsecond';
    if exists (select from sluice.queue_settings as l where l.queue_table = v_queue and sluice._limits(l) <> '{}') then
        v_claimed := array(select c.msg_id from sluice.claim_messages(v_stream.queue_name, 3600, qty, null::text) as c);
        execute format(
            'with marked as (update pgmq.%I as m set vt = $1 where m.msg_id = any ($2) returning m.enqueued_at)
             select count(*), min(marked.enqueued_at) from marked',
            v_queue
        )
        using v_mark, v_claimed
        into messages, first_enqueued_at;
    else
        execute format(
            'select count(*), min(c.enqueued_at) from pgmq.%I($1, $2, $3, null, false) as c', v_queue
        )
        using v_now, v_mark - v_now, qty
        into messages, first_enqueued_at;
    end if;
    if messages = 0 then
        return;
    end if;
    seq := greatest(from_seq, v_last_seq) + 1;
    perform pgq._commit_durably();
    update sluice.queue_stream as s
    set batches = s.batches || row(queue_stream_claim.seq, v_mark, queue_stream_claim.messages, v_now)::sluice.queue_stream_batch
    where s.stream_id = v_stream.stream_id;
    return next;
end;
$$;

comment on function sluice.queue_stream_claim(bigint, bigint, integer) is
    'Return the micro-batch of a stream after from_seq, claiming up to qty visible messages if necessary; no row if there are none. first_enqueued_at is null for one claimed earlier.';
revoke execute on function sluice.queue_stream_claim(bigint, bigint, integer) from public;
grant execute on function sluice.queue_stream_claim(bigint, bigint, integer) to sluice_admin, sluice_reader;
