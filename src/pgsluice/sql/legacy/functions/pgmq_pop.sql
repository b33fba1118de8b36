create or replace function public.pgmq_pop(queue_name text)
returns table (msg_id bigint, read_ct integer, enqueued_at timestamptz, vt timestamptz, message jsonb)
language sql
set search_path = pg_catalog, pg_temp
as $$
    select taken.msg_id, taken.read_ct, taken.enqueued_at, taken.vt, taken.message
    from pgmq.pop(queue_name, 1) as taken
    order by taken.msg_id;
$$;

comment on function public.pgmq_pop(text) is
    'Read the first visible message and delete it immediately. PGMQ 0.20''s name of pgmq.pop.';
revoke execute on function public.pgmq_pop(text) from public;
grant execute on function public.pgmq_pop(text) to sluice_admin, sluice_reader;
