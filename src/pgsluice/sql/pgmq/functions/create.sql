create or replace function pgmq.create(queue_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text := pgmq.format_table_name(queue_name, 'q');
    v_archive text := pgmq.format_table_name(queue_name, 'a');
begin
    perform pgmq.acquire_queue_lock(queue_name);
    perform pgmq.validate_queue_name(queue_name);

    execute format(
        'create table if not exists pgmq.%I (
            msg_id bigint generated always as identity primary key,
            read_ct integer not null default 0,
            enqueued_at timestamptz not null default now(),
            last_read_at timestamptz,
            vt timestamptz not null,
            message jsonb,
            headers jsonb
        )',
        v_queue
    );
    execute format(
        'create table if not exists pgmq.%I (
            msg_id bigint primary key,
            read_ct integer not null default 0,
            enqueued_at timestamptz not null default now(),
            last_read_at timestamptz,
            archived_at timestamptz not null default now(),
            vt timestamptz not null,
            message jsonb,
            headers jsonb
        )',
        v_archive
    );
    execute format('create index if not exists %I on pgmq.%I (vt)', v_queue || '_vt_idx', v_queue);
    execute format(
        'create index if not exists %I on pgmq.%I (archived_at)',
        'archived_at_idx_' || queue_name, v_archive
    );

    insert into pgmq.meta (queue_name, is_partitioned, is_unlogged)
    values (queue_name, false, false)
    on conflict do nothing;

    perform pgmq._grant_queue(queue_name);
end;
$$;

comment on function pgmq.create(text) is
    'Create a work queue and its archive; does nothing when the queue exists.';
revoke execute on function pgmq.create(text) from public;
grant execute on function pgmq.create(text) to sluice_admin;
