-- Creates both tables with the indexes that each partition inherits, but no partitions.
create or replace function pgmq._create_partitioned_tables(queue_name text, is_time boolean)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text := pgmq.format_table_name(queue_name, 'q');
    v_archive text := pgmq.format_table_name(queue_name, 'a');
begin
    perform pgmq._require_free_default(queue_name, array[v_queue, v_archive]);
    execute format(
        'create table pgmq.%I (
            msg_id bigint generated always as identity,
            read_ct integer not null default 0,
            enqueued_at timestamptz not null default now(),
            last_read_at timestamptz,
            vt timestamptz not null,
            message jsonb,
            headers jsonb,
            primary key (%s)
        ) partition by range (%I)',
        v_queue,
        case when is_time then 'msg_id, enqueued_at' else 'msg_id' end,
        case when is_time then 'enqueued_at' else 'msg_id' end
    );
    execute format(
        'create table pgmq.%I (
            msg_id bigint,
            read_ct integer not null default 0,
            enqueued_at timestamptz not null default now(),
            last_read_at timestamptz,
            archived_at timestamptz not null default now(),
            vt timestamptz not null,
            message jsonb,
            headers jsonb,
            primary key (%s)
        ) partition by range (%I)',
        v_archive,
        case when is_time then 'msg_id, archived_at' else 'msg_id' end,
        case when is_time then 'archived_at' else 'msg_id' end
    );
    -- The indexes of ready and deferred messages that every queue has; see README.md.
    execute format('create index %I on pgmq.%I (msg_id) where vt <= enqueued_at', v_queue || '_ready_idx', v_queue);
    execute format('create index %I on pgmq.%I (vt, msg_id) where vt > enqueued_at', v_queue || '_vt_idx', v_queue);
    if is_time then
        -- Finds the first and the last row of the default partition.
        execute format('create index %I on pgmq.%I (enqueued_at)', v_queue || '_part_idx', v_queue);
    end if;
    execute format('create index %I on pgmq.%I (archived_at)', 'archived_at_idx_' || queue_name, v_archive);
end;
$$;

comment on function pgmq._create_partitioned_tables(text, boolean) is
    'Create the tables of a partitioned queue and its archive, without partitions.';
revoke execute on function pgmq._create_partitioned_tables(text, boolean) from public;
grant execute on function pgmq._create_partitioned_tables(text, boolean) to sluice_admin;
