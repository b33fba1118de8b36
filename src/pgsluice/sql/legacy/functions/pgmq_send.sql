create or replace function public.pgmq_send(queue_name text, message jsonb)
returns bigint
language sql
set search_path = pg_catalog, pg_temp
as $$
    select pgmq.send(queue_name, message);
$$;

comment on function public.pgmq_send(text, jsonb) is
    'Send one message; returns its msg_id. PGMQ 0.20''s name of pgmq.send.';
revoke execute on function public.pgmq_send(text, jsonb) from public;
grant execute on function public.pgmq_send(text, jsonb) to sluice_admin, sluice_writer;
