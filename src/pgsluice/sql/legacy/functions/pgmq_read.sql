-- Plain SQL, because PL/pgSQL does not allow an argument and a column with the same name.
create or replace function public.pgmq_read(queue_name text, vt integer, "limit" integer)
returns table (msg_id bigint, read_ct integer, enqueued_at timestamptz, vt timestamptz, message jsonb)
language sql
set search_path = pg_catalog, pg_temp
as $$
    select taken.msg_id, taken.read_ct, taken.enqueued_at, taken.vt, taken.message
    from pgmq.read(queue_name, pgmq_read.vt, pgmq_read."limit", '{}'::jsonb) as taken
    order by taken.msg_id;
$$;

comment on function public.pgmq_read(text, integer, integer) is
    'Read up to limit visible messages and hide them for vt seconds. PGMQ 0.20''s name of pgmq.read.';
revoke execute on function public.pgmq_read(text, integer, integer) from public;
grant execute on function public.pgmq_read(text, integer, integer) to sluice_admin, sluice_reader;
