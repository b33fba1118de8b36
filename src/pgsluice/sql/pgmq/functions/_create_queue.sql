/*
 * Creates the tables, the indexes and the row of an unpartitioned queue, logged or unlogged. On an existing queue it
 * creates what is missing and keeps the kind, as PGMQ does: changing the kind would rewrite the table under its
 * readers.
 *
 * A crash empties an unlogged queue, but not its archive. If ids restarted at 1, they would collide with those in the
 * archive, messages could no longer be archived, and a worker from before the crash would acknowledge another message
 * with the same msg_id and read_ct. So the sequence is logged. The WAL record of an archived row follows the record of
 * the sequence that gave its id, so an id that is still in the archive after a crash is never reused, whatever
 * synchronous_commit is. The cost is one WAL record and its flush per 32 ids: a send took 0.33 ms instead of 0.29, and
 * 0.48 with a logged queue (2 cores, PostgreSQL 18, one session of psycopg, 1,000 sends, median of five, 2026-11-21).
 * Rejected: skipping or replacing the archive's older row, as either loses a message; looking up the highest id at each
 * send.
 *
 * Calls: pgmq.acquire_queue_lock, pgmq.validate_queue_name, pgmq._grant_queue, pgmq._create_reader. Writes: pgmq.meta.
 */
create or replace function pgmq._create_queue(queue_name text, is_unlogged boolean)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text := pgmq.format_table_name(queue_name, 'q');
    v_archive text := pgmq.format_table_name(queue_name, 'a');
    v_ids text := v_queue || '_msg_id_seq';
    v_has_met boolean;
    v_is_new boolean;
begin
    perform pgmq.acquire_queue_lock(queue_name);
    perform pgmq.validate_queue_name(queue_name);

    -- A complete queue of another role, older or adopted, is left unchanged: services create their queues at each
    -- start.
    perform
    from pgmq.meta as m
    where m.queue_name = _create_queue.queue_name
      and to_regclass(format('pgmq.%I', v_archive)) is not null
      and to_regclass(format('pgmq.%I', v_queue || '_ready_idx')) is not null
      and to_regclass(format('pgmq.%I', v_queue || '_vt_idx')) is not null
      and to_regproc(format('pgmq.%I', v_queue)) is not null
      and exists (
        select from pg_class as c where c.oid = to_regclass(format('pgmq.%I', v_queue)) and not pg_has_role(c.relowner, 'usage')
      );
    if found then
        raise notice 'relation "%" already exists, skipping', v_queue;
        return;
    end if;
    perform pgmq._require_own_table(v_queue);
    v_is_new := to_regclass(format('pgmq.%I', v_queue)) is null and to_regclass(format('pgmq.%I', v_archive)) is null;
    perform pgmq._require_own_table(v_archive);

    execute format(
        'create %s table if not exists pgmq.%I (
            msg_id bigint generated always as identity primary key,
            read_ct integer not null default 0,
            enqueued_at timestamptz not null default now(),
            last_read_at timestamptz,
            vt timestamptz not null,
            message jsonb,
            headers jsonb
        )',
        case when is_unlogged then 'unlogged' end, v_queue
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

    -- Also for a queue that PGMQ created, whose ids may already be behind its archive: messages that would overwrite
    -- archived ones get a new id, as if redelivered after an expired claim.
    perform from pg_class as c
    where c.relnamespace = 'pgmq'::regnamespace
      and c.relname = v_ids
      and c.relkind = 'S'
      and c.relpersistence = 'u';
    if found then
        execute format('alter sequence pgmq.%I set logged', v_ids);
        execute format(
            'select setval(%1$L, max(archived.msg_id))
             from pgmq.%2$I as archived
             having max(archived.msg_id) >= (select ids.last_value from pgmq.%3$I as ids)',
            format('pgmq.%I', v_ids), v_archive, v_ids
        );
        execute format(
            'select exists (select from pgmq.%I as queued join pgmq.%I as archived using (msg_id))', v_queue, v_archive
        )
        into v_has_met;
        if v_has_met then
            -- A trigger on them would run with this role's rights.
            perform pgmq._require_no_foreign_code(format('pgmq.%I', v_queue)::regclass);
            execute format(
                'update pgmq.%1$I set msg_id = default where msg_id in (select archived.msg_id from pgmq.%2$I as archived)',
                v_queue, v_archive
            );
        end if;
    end if;

    perform pgmq._tune_storage(format('pgmq.%I', v_queue)::regclass);
    -- One index each for ready and deferred messages; README.md gives the reason.
    if to_regclass(format('pgmq.%I', v_queue || '_ready_idx')) is null then -- "if not exists" raises a notice that PGMQ has not
        execute format('create index %I on pgmq.%I (msg_id) where vt <= enqueued_at', v_queue || '_ready_idx', v_queue);
    end if;
    execute format(
        'create index if not exists %I on pgmq.%I (vt, msg_id) where vt > enqueued_at', v_queue || '_vt_idx', v_queue
    );
    execute format(
        'create index if not exists %I on pgmq.%I (archived_at)',
        'archived_at_idx_' || queue_name, v_archive
    );

    insert into pgmq.meta (queue_name, is_partitioned, is_unlogged)
    values (_create_queue.queue_name, false, _create_queue.is_unlogged)
    on conflict do nothing;

    perform pgmq._grant_queue(queue_name);
    -- Only if it is missing: replacing it makes every session plan anew, and services create their queues at each
    -- start.
    if to_regproc(format('pgmq.%I', v_queue)) is null or to_regproc(format('pgmq.%I', v_archive)) is null then
        perform pgmq._create_reader(queue_name);
    end if;
    if v_is_new then
        perform pgmq._grant_creator(queue_name);
    end if;
end;
$$;

comment on function pgmq._create_queue(text, boolean) is
    'Create a work queue and its archive; on an existing queue, create what is missing and keep its kind.';
revoke execute on function pgmq._create_queue(text, boolean) from public;
grant execute on function pgmq._create_queue(text, boolean) to sluice_admin;
