-- Not a part of create: the indexes slow down every send, also to queues that are never read by groups. Maintenance calls
-- it for queues that are (sluice._maintain_indexes).
create or replace function pgmq.create_fifo_index(queue_name text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text := pgmq.format_table_name(queue_name, 'q');
    v_key text := pgmq._fifo_key_sql(v_queue);
begin
    perform pgmq.acquire_queue_lock(queue_name);
    perform pgmq._require_own_table(v_queue);
    if exists (
        select
        from pg_index as i
        join pg_class as c on c.oid = i.indexrelid
        join pg_am as a on a.oid = c.relam
        where c.relnamespace = 'pgmq'::regnamespace
          and c.relname = v_queue || '_fifo_idx'
          and a.amname = 'gin'
    ) then
        -- PGMQ's own index on an adopted queue, which no query can use.
        execute format('drop index pgmq.%I', v_queue || '_fifo_idx');
    end if;
    execute format(
        'create index if not exists %I on pgmq.%I ((%s), msg_id)', v_queue || '_fifo_idx', v_queue, v_key
    );
    -- Messages in each group that were read but not finished: few, and _next_groups must find them among all others.
    if to_regclass(format('pgmq.%I', v_queue || '_fifo_read_idx')) is null then
        execute format(
            'create index %I on pgmq.%I ((%s), msg_id) where read_ct > 0', v_queue || '_fifo_read_idx', v_queue, v_key
        );
    end if;
end;
$$;

comment on function pgmq.create_fifo_index(text) is
    'Create the indexes by which the read_grouped functions find a group''s messages without reading the whole queue.';
revoke execute on function pgmq.create_fifo_index(text) from public;
grant execute on function pgmq.create_fifo_index(text) to sluice_admin;
