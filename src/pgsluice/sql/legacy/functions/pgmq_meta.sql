-- A view in the place of PGMQ 0.20's table; the rights are those of the caller on pgmq.meta.
create or replace view public.pgmq_meta with (security_invoker = true) as
select m.queue_name, m.created_at
from pgmq.meta as m;

comment on view public.pgmq_meta is
    'One row per work queue, read only. PGMQ 0.20''s name of pgmq.meta.';
revoke all on public.pgmq_meta from public;
grant select on public.pgmq_meta to sluice_admin, sluice_writer, sluice_reader, sluice_monitor;
grant select on public.pgmq_meta to pg_monitor;
