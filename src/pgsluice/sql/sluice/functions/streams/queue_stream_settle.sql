-- Writes: the queue's tables, sluice.queue_stream.
create or replace function sluice.queue_stream_settle(stream_id bigint, to_seq bigint, archive boolean default true)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_stream sluice.queue_stream := sluice._lock_queue_stream(stream_id, null::bigint);
    v_marks timestamptz[] := array(select b.mark from unnest(v_stream.batches) as b where b.seq <= to_seq);
    v_messages bigint := 0;
begin
    if v_marks = '{}' then
        return 0;
    end if;
    execute format(
        case when archive then
            'with moved as (
                delete from pgmq.%1$I as m
                where m.vt > m.enqueued_at and m.vt = any ($1)
                returning m.msg_id, m.read_ct, m.enqueued_at, m.last_read_at, m.vt, m.message, m.headers
            )
            insert into pgmq.%2$I (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
            select moved.msg_id, moved.read_ct, moved.enqueued_at, moved.last_read_at, moved.vt, moved.message, moved.headers
            from moved'
        else
            'delete from pgmq.%1$I as m where m.vt > m.enqueued_at and m.vt = any ($1)'
        end,
        pgmq.format_table_name(v_stream.queue_name, 'q'), pgmq.format_table_name(v_stream.queue_name, 'a')
    )
    using v_marks;
    get diagnostics v_messages = row_count;
    update sluice.queue_stream as s
    set settled_seq = to_seq, batches = array(select b from unnest(v_stream.batches) as b where b.seq > to_seq)
    where s.stream_id = v_stream.stream_id;
    return v_messages;
end;
$$;

comment on function sluice.queue_stream_settle(bigint, bigint, boolean) is
    'Archive or delete the messages of a stream up to this micro-batch, after its reader has stored them. Returns their number.';
revoke execute on function sluice.queue_stream_settle(bigint, bigint, boolean) from public;
grant execute on function sluice.queue_stream_settle(bigint, bigint, boolean) to sluice_admin, sluice_reader;
