-- As in 0.20, and unlike pgmq.read_with_poll, it reads before it checks the deadline: with 0 seconds it is pgmq_read.
create or replace function public.pgmq_read_with_poll(
    queue_name text,
    vt integer,
    "limit" integer,
    poll_timeout_s integer default 5,
    poll_interval_ms integer default 250
)
returns table (msg_id bigint, read_ct integer, enqueued_at timestamptz, vt timestamptz, message jsonb)
language sql
set search_path = pg_catalog, pg_temp
as $$
    with at_once as materialized (
        select *
        from pgmq.read(queue_name, pgmq_read_with_poll.vt, pgmq_read_with_poll."limit", '{}'::jsonb)
    ),
    taken as (
        select * from at_once
        union all
        select polled.*
        from pgmq.read_with_poll(
            queue_name, pgmq_read_with_poll.vt, pgmq_read_with_poll."limit", poll_timeout_s, poll_interval_ms, '{}'::jsonb
        ) as polled
        where not exists (select from at_once)
    )
    select taken.msg_id, taken.read_ct, taken.enqueued_at, taken.vt, taken.message
    from taken
    order by taken.msg_id;
$$;

comment on function public.pgmq_read_with_poll(text, integer, integer, integer, integer) is
    'Like pgmq_read, but poll for up to poll_timeout_s seconds. PGMQ 0.20''s name of pgmq.read_with_poll.';
revoke execute on function public.pgmq_read_with_poll(text, integer, integer, integer, integer) from public;
grant execute on function public.pgmq_read_with_poll(text, integer, integer, integer, integer) to sluice_admin, sluice_reader;
