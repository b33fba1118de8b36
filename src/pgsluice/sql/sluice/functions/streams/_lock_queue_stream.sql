create or replace function sluice._lock_queue_stream(i_stream_id bigint, from_seq bigint)
returns sluice.queue_stream
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_stream sluice.queue_stream;
begin
    select s.* into v_stream from sluice.queue_stream as s where s.stream_id = i_stream_id for no key update;
    if not found then
        raise exception using
            errcode = '55000',
            message = format('queue stream %s was given up', i_stream_id),
            detail = 'Its messages went back into the queue.',
            hint = 'start the query with a new checkpoint';
    end if;
    if from_seq < v_stream.settled_seq then
        raise exception using
            errcode = '55000',
            message = format(
                'queue stream %L is settled up to micro-batch %s and cannot be read from %s on',
                v_stream.stream_name, v_stream.settled_seq, from_seq
            ),
            detail = 'Another query reads under this name, or the checkpoint is older than the database.',
            hint = 'use one name per query, or start this one with a new checkpoint';
    end if;
    return v_stream;
end;
$$;

comment on function sluice._lock_queue_stream(bigint, bigint) is
    'Lock a stream of a queue; raise an error if it is gone, or settled beyond the position of its reader.';
revoke execute on function sluice._lock_queue_stream(bigint, bigint) from public;
grant execute on function sluice._lock_queue_stream(bigint, bigint) to sluice_admin, sluice_reader;
