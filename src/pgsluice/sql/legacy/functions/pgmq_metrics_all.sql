create or replace function public.pgmq_metrics_all()
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
    from pgmq.metrics_all() as measured
    order by measured.queue_name;
$$;

comment on function public.pgmq_metrics_all() is
    'Return the metrics of all queues, by name. PGMQ 0.20''s name of pgmq.metrics_all.';
revoke execute on function public.pgmq_metrics_all() from public;
grant execute on function public.pgmq_metrics_all() to sluice_admin, sluice_reader, sluice_monitor;
