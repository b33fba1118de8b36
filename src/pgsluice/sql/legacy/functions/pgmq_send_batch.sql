create or replace function public.pgmq_send_batch(queue_name text, messages jsonb[], delay bigint default 0)
returns table (msg_id bigint)
language sql
set search_path = pg_catalog, pg_temp
as $$
    select pgmq.send_batch(queue_name, messages, delay::integer);
$$;

comment on function public.pgmq_send_batch(text, jsonb[], bigint) is
    'Send messages in array order, visible after delay seconds; returns their msg_ids. PGMQ 0.20''s name of pgmq.send_batch.';
revoke execute on function public.pgmq_send_batch(text, jsonb[], bigint) from public;
grant execute on function public.pgmq_send_batch(text, jsonb[], bigint) to sluice_admin, sluice_writer;
