-- Plain SQL, because PL/pgSQL does not allow an argument and a column with the same name.
create or replace function public.pgmq_set_vt(queue_name text, msg_id bigint, vt_offset integer)
returns table (msg_id bigint, read_ct integer, enqueued_at timestamptz, vt timestamptz, message jsonb)
language sql
set search_path = pg_catalog, pg_temp
as $$
    select taken.msg_id, taken.read_ct, taken.enqueued_at, taken.vt, taken.message
    from pgmq.set_vt(queue_name, pgmq_set_vt.msg_id, vt_offset) as taken
    order by taken.msg_id;
$$;

comment on function public.pgmq_set_vt(text, bigint, integer) is
    'Make one message visible vt_offset seconds from now. PGMQ 0.20''s name of pgmq.set_vt.';
revoke execute on function public.pgmq_set_vt(text, bigint, integer) from public;
grant execute on function public.pgmq_set_vt(text, bigint, integer) to sluice_admin, sluice_reader;
