create or replace function public.pgmq_metrics(queue_name text)
returns table (
    queue_name text,
    queue_length bigint,
    newest_msg_age_sec integer,
    oldest_msg_age_sec integer,
    total_messages bigint,
    scrape_time timestamptz
)
language sql
set search_path = pg_catalog, pg_temp
as $$
    select
        measured.queue_name,
        measured.queue_length,
        measured.newest_msg_age_sec,
        measured.oldest_msg_age_sec,
        measured.total_messages,
        measured.scrape_time
    from pgmq.metrics(pgmq_metrics.queue_name) as measured;
$$;

comment on function public.pgmq_metrics(text) is
    'Return length, ages in seconds (null if empty) and ids given out of one queue. PGMQ 0.20''s name of pgmq.metrics.';
revoke execute on function public.pgmq_metrics(text) from public;
grant execute on function public.pgmq_metrics(text) to sluice_admin, sluice_reader, sluice_monitor;
