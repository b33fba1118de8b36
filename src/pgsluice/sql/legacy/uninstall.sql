-- Dropped one by one, because schema public is not ours.
drop function if exists public.pgmq_archive(text, bigint);
drop function if exists public.pgmq_archive(text, bigint[]);
drop function if exists public.pgmq_create(text);
drop function if exists public.pgmq_create_non_partitioned(text);
drop function if exists public.pgmq_create_partitioned(text, text, text);
drop function if exists public.pgmq_delete(text, bigint);
drop function if exists public.pgmq_delete(text, bigint[]);
drop function if exists public.pgmq_drop_queue(text, boolean);
drop function if exists public.pgmq_list_queues();
drop function if exists public.pgmq_metrics(text);
drop function if exists public.pgmq_metrics_all();
drop function if exists public.pgmq_pop(text);
drop function if exists public.pgmq_read(text, integer, integer);
drop function if exists public.pgmq_read_with_poll(text, integer, integer, integer, integer);
drop function if exists public.pgmq_send(text, jsonb);
drop function if exists public.pgmq_send_batch(text, jsonb[], bigint);
drop function if exists public.pgmq_set_vt(text, bigint, integer);
drop view if exists public.pgmq_meta;
