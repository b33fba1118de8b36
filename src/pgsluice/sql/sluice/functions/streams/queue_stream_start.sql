create or replace function sluice.queue_stream_start(stream_name text, queue_name text)
returns table (stream_id bigint, seq bigint)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_bytes_max constant integer := 1024;
    v_queue text := pgmq.format_table_name(queue_name, 'q');
    v_other text;
begin
    if stream_name is null or queue_name is null then
        raise exception using
            errcode = '22004',
            message = 'stream_name or queue_name is null',
            hint = 'pass the name of the reader, and of the queue it reads';
    end if;
    if octet_length(stream_name) not between 1 and v_bytes_max then
        raise exception using
            errcode = '22023',
            message = format('stream name has %s bytes', octet_length(stream_name)),
            hint = format('use 1 to %s bytes', v_bytes_max);
    end if;
    execute format('select from pgmq.%I limit 0', v_queue);

    perform pgq._commit_durably();
    insert into sluice.queue_stream (stream_name, queue_name, settled_seq, made_at)
    values (queue_stream_start.stream_name, queue_stream_start.queue_name, 0, clock_timestamp())
    on conflict on constraint queue_stream_stream_name_key do nothing;
    select s.queue_name
    into v_other
    from sluice.queue_stream as s
    where s.stream_name = queue_stream_start.stream_name
      and pgmq.format_table_name(s.queue_name, 'q') <> v_queue;
    if found then
        raise exception using
            errcode = '22023',
            message = format('stream %L reads queue %L', stream_name, v_other),
            hint = format(
                'use a name of its own for queue %L, or give the other stream up with sluice.queue_stream_drop(%L)',
                queue_name, stream_name
            );
    end if;
    return query
        select s.stream_id, s.settled_seq from sluice.queue_stream as s where s.stream_name = queue_stream_start.stream_name;
end;
$$;

comment on function sluice.queue_stream_start(text, text) is
    'Register or find a reader of a work queue by its unique name; returns its id, and its last settled micro-batch.';
revoke execute on function sluice.queue_stream_start(text, text) from public;
grant execute on function sluice.queue_stream_start(text, text) to sluice_admin, sluice_reader;
