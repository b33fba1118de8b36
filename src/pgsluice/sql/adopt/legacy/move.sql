-- Moves the tables of PGMQ 0.20 to the names of schema pgmq, with their rows, grants, policies and triggers. Their ids
-- become identity columns that continue. The indexes, and rights of our roles, follow in queues.sql.
do $$
declare
    v_queue record;
    v_table name;
    v_archive name;
    v_ids text;
    v_sequence text;
    v_last bigint;
    v_is_called boolean;
    v_highest bigint;
    v_object record;
begin
    for v_queue in
        select q.*, a.attidentity
        from adopted_old_queue as q
        join pg_attribute as a on a.attrelid = q.queue_oid and a.attname = 'msg_id'
        order by q.queue_name
    loop
        v_table := lower('q_' || v_queue.queue_name);
        v_archive := lower('a_' || v_queue.queue_name);
        v_ids := format('%s_msg_id_seq', v_table);
        execute format('alter table %s set schema pgmq', v_queue.queue_oid::regclass);
        execute format('alter table %s rename to %I', v_queue.queue_oid::regclass, v_table);
        if v_queue.archive_oid is not null then
            execute format('alter table %s set schema pgmq', v_queue.archive_oid::regclass);
            execute format('alter table %s rename to %I', v_queue.archive_oid::regclass, v_archive);
        end if;

        for v_object in
            select t.oid::regclass::text as table_name, t.oid = v_queue.queue_oid as is_queue,
                pg_get_serial_sequence(t.oid::regclass::text, 'msg_id') as sequence_name,
                exists (select from pg_index as i where i.indrelid = t.oid and i.indisprimary) as has_key
            from (values (v_queue.queue_oid), (v_queue.archive_oid)) as t (oid)
            where t.oid is not null
        loop
            if not v_object.has_key then
                execute format('alter table %s add primary key (msg_id)', v_object.table_name);
            end if;
            execute format('alter table %s alter read_ct set default 0, alter enqueued_at set default now()', v_object.table_name);
            execute format('alter table %s add column if not exists last_read_at timestamptz', v_object.table_name);
            execute format('alter table %s add column if not exists headers jsonb', v_object.table_name);
            if not v_object.is_queue then
                execute format(
                    'alter table %s add column if not exists archived_at timestamptz not null default now()', v_object.table_name
                );
                -- The ids of an archive are those of the queue.
                execute format('alter table %s alter msg_id drop identity if exists', v_object.table_name);
                execute format('alter table %s alter msg_id drop default', v_object.table_name);
                if v_object.sequence_name is not null then
                    execute format('drop sequence if exists %s', v_object.sequence_name);
                end if;
            end if;
        end loop;

        v_sequence := pg_get_serial_sequence(v_queue.queue_oid::regclass::text, 'msg_id');
        v_last := 1;
        v_is_called := false;
        if v_sequence is not null then
            execute format('select s.last_value, s.is_called from %s as s', v_sequence) into v_last, v_is_called;
        end if;
        if v_queue.attidentity = '' then
            execute format('alter table %s alter msg_id drop default', v_queue.queue_oid::regclass);
            if v_sequence is not null then
                execute format('drop sequence %s', v_sequence);
            end if;
            execute format(
                'alter table %s alter msg_id add generated always as identity (sequence name pgmq.%I)',
                v_queue.queue_oid::regclass, v_ids
            );
        else
            execute format('alter table %s alter msg_id set generated always', v_queue.queue_oid::regclass);
            execute format('alter sequence %s rename to %I', v_sequence, v_ids);
        end if;
        execute format('select max(t.msg_id) from %s as t', v_queue.queue_oid::regclass) into v_highest;
        if v_queue.archive_oid is not null then
            execute format('select greatest($1, max(t.msg_id)) from %s as t', v_queue.archive_oid::regclass)
            into v_highest using v_highest;
        end if;
        perform setval(
            format('pgmq.%I', v_ids)::regclass, greatest(v_last, v_highest), v_is_called or coalesce(v_highest >= v_last, false)
        );

        -- PGMQ's index on vt has no use here, and slows down every update; the others get our names.
        for v_object in
            select i.indexrelid::regclass::text as name, n.wanted
            from pg_index as i
            join pg_class as c on c.oid = i.indexrelid
            join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
            cross join lateral (
                select case
                    when i.indisprimary and i.indrelid = v_queue.queue_oid then v_table || '_pkey'
                    when i.indisprimary then v_archive || '_pkey'
                    when a.attname = 'archived_at' then 'archived_at_idx_' || v_queue.queue_name
                    else ''
                end
            ) as n (wanted)
            where i.indrelid in (v_queue.queue_oid, v_queue.archive_oid)
              and i.indnkeyatts = 1
              and i.indpred is null
              and (
                i.indisprimary
                or not i.indisunique and a.attname = case i.indrelid when v_queue.queue_oid then 'vt' else 'archived_at' end
              )
              and c.relname <> n.wanted::name
        loop
            if v_object.wanted = '' then
                execute format('drop index %s', v_object.name);
            else
                execute format('alter index %s rename to %I', v_object.name, v_object.wanted);
            end if;
        end loop;

        execute 'insert into pgmq.meta (queue_name, is_partitioned, is_unlogged, created_at)
            values ($1, false, $2, coalesce($3, now()))'
        using v_queue.queue_name, v_queue.is_unlogged, v_queue.created_at;
    end loop;
end;
$$;
