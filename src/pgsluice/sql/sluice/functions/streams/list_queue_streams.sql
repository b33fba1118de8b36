create or replace function sluice.list_queue_streams()
returns table (stream_name text, queue_name text, settled_seq bigint, claimed_messages bigint, oldest_claim_at timestamptz)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select s.stream_name, s.queue_name, s.settled_seq, coalesce(sum(b.messages), 0)::bigint, min(b.claimed_at)
    from sluice.queue_stream as s
    left join lateral unnest(s.batches) as b on true
    group by s.stream_id
    order by s.stream_name;
$$;

comment on function sluice.list_queue_streams() is
    'Return the streams that read work queues, by name, with their settled position and the messages claimed since.';
revoke execute on function sluice.list_queue_streams() from public;
grant execute on function sluice.list_queue_streams() to sluice_admin, sluice_monitor, sluice_reader;
