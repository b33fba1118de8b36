-- By ranges of msg_id: of similar size if the ids of a micro-batch have no large gaps, as when it is claimed from the head
-- of a queue.
create or replace function sluice.queue_stream_slices(
    stream_id bigint, from_seq bigint, to_seq bigint, slice_count integer, slice_messages_min integer, columns text[]
)
returns table (slice integer, query text)
language plpgsql
set search_path = pg_catalog, pg_temp
-- Times in the queries are read by other sessions.
set timezone = 'UTC'
set datestyle = 'ISO'
as $$
declare
    v_stream sluice.queue_stream := sluice._lock_queue_stream(stream_id, from_seq);
    v_queue text := pgmq.format_table_name(v_stream.queue_name, 'q');
    v_marks timestamptz[];
    v_messages bigint;
    v_low bigint;
    v_high bigint;
    v_count bigint;
    v_columns text := sluice._message_columns_sql(columns, hides_vt => true); -- the mark is internal
begin
    select array_agg(b.mark order by b.seq), sum(b.messages)
    into v_marks, v_messages
    from unnest(v_stream.batches) as b
    where b.seq > from_seq and b.seq <= to_seq;
    if v_marks is null then
        return;
    end if;
    execute format(
        'select min(m.msg_id), max(m.msg_id) from pgmq.%I as m where m.vt > m.enqueued_at and m.vt = any ($1)', v_queue
    )
    using v_marks
    into v_low, v_high;
    if v_high is null then
        return; -- its messages were removed
    end if;
    v_count := greatest(1, least(slice_count, v_high - v_low, 1 + v_messages / slice_messages_min));
    return query
        select s.number::integer,
            format(
                'select %s from pgmq.%I as m where m.vt > m.enqueued_at and m.vt = any (%L::timestamptz[])%s%s order by m.msg_id',
                v_columns, v_queue, v_marks,
                case when s.number > 1 then
                    format(' and m.msg_id > %s', v_low + ((v_high - v_low)::numeric * (s.number - 1) / v_count)::bigint)
                end,
                case when s.number < v_count then
                    format(' and m.msg_id <= %s', v_low + ((v_high - v_low)::numeric * s.number / v_count)::bigint)
                end
            )
        from generate_series(1, v_count) as s (number)
        order by s.number;
end;
$$;

comment on function sluice.queue_stream_slices(bigint, bigint, bigint, integer, integer, text[]) is
    'Return queries that together read each message of the micro-batches of a stream after from_seq up to to_seq once, until these are settled.';
revoke execute on function sluice.queue_stream_slices(bigint, bigint, bigint, integer, integer, text[]) from public;
grant execute on function sluice.queue_stream_slices(bigint, bigint, bigint, integer, integer, text[]) to sluice_admin, sluice_reader;
