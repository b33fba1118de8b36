-- The reader may have stored messages that it has not settled: these are delivered twice. So this is for a reader that is given up; when it returns, it gets an
-- error.
--
-- Calls: sluice.release, so that the claims count as no attempts. Writes: the queue's table, sluice.queue_stream.
create or replace function sluice.queue_stream_drop(stream_name text)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_messages_max constant bigint := 5000;
    v_stream sluice.queue_stream;
    v_batch sluice.queue_stream_batch;
    v_msg_ids bigint[];
    v_read_cts integer[];
    v_messages bigint := 0;
begin
    select s.* into v_stream from sluice.queue_stream as s where s.stream_name = queue_stream_drop.stream_name for update;
    if not found then
        return null;
    end if;
    foreach v_batch in array v_stream.batches
    loop
        loop
            execute format(
                'select array_agg(m.msg_id), array_agg(m.read_ct)
                 from (
                     select m.msg_id, m.read_ct from pgmq.%I as m
                     where m.vt > m.enqueued_at and m.vt = $1
                     order by m.msg_id
                     limit $2
                 ) as m',
                pgmq.format_table_name(v_stream.queue_name, 'q')
            )
            using v_batch.mark, v_messages_max
            into v_msg_ids, v_read_cts;
            exit when v_msg_ids is null;
            perform sluice.release(v_stream.queue_name, v_msg_ids, v_read_cts, 0::double precision, null::timestamptz[], false);
            v_messages := v_messages + cardinality(v_msg_ids);
        end loop;
    end loop;
    delete from sluice.queue_stream as s where s.stream_id = v_stream.stream_id;
    return v_messages;
end;
$$;

comment on function sluice.queue_stream_drop(text) is
    'Give up a stream of a queue: its unsettled messages become visible immediately. Returns their number; null if the stream does not exist.';
revoke execute on function sluice.queue_stream_drop(text) from public;
grant execute on function sluice.queue_stream_drop(text) to sluice_admin, sluice_reader;
