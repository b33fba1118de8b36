/*
 * Every queue has two functions of its own, as static SQL on its tables, whose plans PostgreSQL caches. Dynamic SQL is
 * planned at each call, which took five times longer than the rest of a read of one message, and as long as the rest of
 * archiving one.
 *
 * - The reader, named after the table of the queue: the core of pgmq.read and pgmq.pop. README.md explains the two indexes
 *   and the head.
 * - The settler, named after the archive: deletes one message (remove), or moves it to the archive, if its read_ct is the
 *   fence or the fence is null, and its enqueued_at the given one or none is given. Partitioned queues have none: a cached plan locks all partitions.
 *
 * They run with their caller's rights. They belong to the owner of the schema, not to the creator of the queue, because
 * installations replace them (readers.sql).
 *
 * Returns one row per function that is missing or differs from this release in its text, settings, comment or rights, with
 * the statements that correct it. Replacing a function takes no lock, but COMMENT and GRANT do: they are left out where
 * they would change nothing.
 *
 * Calls: pgmq.format_table_name. Reads: the catalog.
 */
create or replace function pgmq._outdated_readers(queue_names text[], out queue_name text, out statement text)
returns setof record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set quote_all_identifiers = off -- names of types are compared as text
as $$
declare
    -- One generic plan for all quantities, always through the indexes: a plan for today's few rows would be used on a
    -- million tomorrow. A bitmap scan is unordered and would collect all matching rows first.
    v_settings constant text[] := array[
        'search_path=pg_catalog, pg_temp', 'plan_cache_mode=force_generic_plan', 'enable_seqscan=off', 'enable_bitmapscan=off'
    ];
    v_comment constant text := 'The reader of a queue: what pgmq.read and pgmq.pop do, planned once.';
    v_types constant text := 'timestamp with time zone, interval, integer, jsonb, boolean';
    v_roles constant oid[] := array(select r.oid from pg_roles as r where r.rolname in ('sluice_admin', 'sluice_reader'));
    -- The first ready messages, if none is due.
    v_ready constant text := $ready$
                select ready.msg_id
                from pgmq.%1$I as ready
                where ready.vt <= ready.enqueued_at
                  and ready.vt <= due_by
                  and ready.msg_id >= v_first_msg_id
                  and not exists (
                    select
                    from pgmq.%1$I as deferred
                    where deferred.vt > deferred.enqueued_at
                      and deferred.vt >= v_first_vt
                      and deferred.vt <= due_by
                  )
                order by ready.msg_id
                limit qty
                for update skip locked
            $ready$;
    v_body constant text := $body$
declare
    -- Later changes before the head are not seen. So it is used only where a scan from the beginning passes many blocks of
    -- the indexes, and only so long that full scans remain a small part of the work. A block has about 360 entries, which
    -- cost 70 us while their rows may still be visible to a snapshot, and 3 us once a scan has marked them. The server
    -- counts the blocks; where track_counts is off, and in partitions, there is no head.
    v_blocks_max constant bigint := 20;
    v_rest constant float8 := 20;
    v_rest_min_s constant float8 := 0.2;
    v_rest_max_s constant float8 := 60;
    -- The head stays this far behind what was found, so that transactions of usual length need not wait for a full
    -- scan.
    v_slack_ids constant bigint := 1000;
    v_slack_s constant float8 := 0.2;
    -- Due messages beyond this number are taken in the order in which they became due: sorting all of them by msg_id
    -- would make each read depend on their number.
    v_due_max constant bigint := 1000;

    v_setting constant text := coalesce(current_setting(%2$L, true), '');
    v_contained constant jsonb := nullif(conditional, '{}');
    v_count bigint;
    -- The head that this session remembers: when it expires (seconds since 1970), the lowest ready msg_id, and the
    -- lowest vt (seconds) of deferred messages. -Infinity: that index is read from its beginning.
    v_head float8[];
    v_ready_idx oid;
    v_deferred_idx oid;
    v_ready_blocks bigint;
    v_deferred_blocks bigint;
    v_now_s float8;
    v_started_at timestamptz;
    v_ready_id bigint;
    v_first_msg_id bigint := -9223372036854775808;
    v_first_vt timestamptz := '-infinity';
    v_first_due timestamptz;
    v_claimed bigint[];
begin
    if v_setting <> '' then
        v_head := string_to_array(v_setting, ' ');
        v_now_s := extract(epoch from due_by);
        if v_head[1] between v_now_s and v_now_s + v_rest_max_s then
            v_first_msg_id := case when v_head[2] > '-infinity' then v_head[2] else v_first_msg_id end;
            v_first_vt := to_timestamp(v_head[3]);
        else
            v_head := null;
        end if;
    end if;

    -- The usual case in one statement: no condition, and no message is due. If one is due, or nothing is
    -- ready, it does nothing, and the steps below follow. A subquery without outer references is executed once; its
    -- result cannot prune partitions. If the head has expired, those steps store it again.
    if v_contained is null and (v_setting = '' or v_head is not null and qty = 1) and %5$s then
        if qty = 1 and remove then
            return query
            delete from pgmq.%1$I as queued
            where queued.msg_id = (%6$s)
            returning queued.msg_id, queued.read_ct, queued.enqueued_at, queued.last_read_at, queued.vt,
                queued.message, queued.headers;
        elsif qty = 1 then
            return query
            update pgmq.%1$I as queued
            set last_read_at = due_by,
                vt = due_by + hide_for,
                read_ct = least(queued.read_ct::bigint + 1, 2147483647)::integer
            where queued.msg_id = (%6$s)
            returning queued.msg_id, queued.read_ct, queued.enqueued_at, queued.last_read_at, queued.vt,
                queued.message, queued.headers;
        elsif remove then
            return query
            with popped as (
                delete from pgmq.%1$I as queued
                where queued.msg_id = any (array(%6$s))
                returning queued.msg_id, queued.read_ct, queued.enqueued_at, queued.last_read_at, queued.vt,
                    queued.message, queued.headers
            )
            select * from popped order by popped.msg_id;
        else
            return query
            with delivered as (
                update pgmq.%1$I as queued
                set last_read_at = due_by,
                    vt = due_by + hide_for,
                    read_ct = least(queued.read_ct::bigint + 1, 2147483647)::integer
                where queued.msg_id = any (array(%6$s))
                returning queued.msg_id, queued.read_ct, queued.enqueued_at, queued.last_read_at, queued.vt,
                    queued.message, queued.headers
            )
            select * from delivered order by delivered.msg_id;
        end if;
        if found then
            get diagnostics v_count = row_count;
            -- Counting the blocks costs more than the clock. A scan that passed many was slow: it is repeated to count them,
            -- or to move the head.
            if clock_timestamp() > due_by + interval '1 ms' + v_count * interval '20 us' then
                v_started_at := clock_timestamp();
                v_ready_idx := to_regclass(%3$L);
                v_deferred_idx := to_regclass(%4$L);
                v_ready_blocks := pg_stat_get_xact_blocks_fetched(v_ready_idx);
                v_deferred_blocks := pg_stat_get_xact_blocks_fetched(v_deferred_idx);
                select queued.msg_id
                into v_ready_id
                from pgmq.%1$I as queued
                where queued.vt <= queued.enqueued_at
                  and queued.vt <= due_by
                  and queued.msg_id >= v_first_msg_id
                order by queued.msg_id
                limit 1;
                perform
                from pgmq.%1$I as deferred
                where deferred.vt > deferred.enqueued_at
                  and deferred.vt >= v_first_vt
                  and deferred.vt <= due_by
                limit 1;
                v_ready_blocks := pg_stat_get_xact_blocks_fetched(v_ready_idx) - v_ready_blocks;
                v_deferred_blocks := pg_stat_get_xact_blocks_fetched(v_deferred_idx) - v_deferred_blocks;
                v_now_s := extract(epoch from due_by);
                if v_head is not null then
                    if not found then
                        v_head[2] := case
                            when v_head[2] > '-infinity' then greatest(v_ready_id - v_slack_ids, v_first_msg_id)::float8
                            else v_head[2]
                        end;
                        v_head[3] := case when v_head[3] > '-infinity' then v_now_s - v_slack_s else v_head[3] end;
                    end if;
                elsif not found and greatest(v_ready_blocks, v_deferred_blocks) > v_blocks_max then
                    v_head := array[
                        v_now_s + greatest(
                            v_rest_min_s, least(extract(epoch from clock_timestamp() - v_started_at) * v_rest, v_rest_max_s)
                        ),
                        case when v_ready_blocks > v_blocks_max then greatest(v_ready_id - v_slack_ids, v_first_msg_id)::float8 end,
                        case when v_deferred_blocks > v_blocks_max then v_now_s - v_slack_s end
                    ];
                end if;
                if v_head is not null then
                    perform set_config(%2$L, array_to_string(v_head, ' ', '-infinity'), false);
                end if;
            end if;
            return;
        end if;
    end if;

    v_ready_idx := to_regclass(%3$L);
    v_deferred_idx := to_regclass(%4$L);
    v_ready_blocks := pg_stat_get_xact_blocks_fetched(v_ready_idx);
    v_deferred_blocks := pg_stat_get_xact_blocks_fetched(v_deferred_idx);
    v_now_s := extract(epoch from due_by);

    select queued.vt
    into v_first_due
    from pgmq.%1$I as queued
    where queued.vt > queued.enqueued_at
      and queued.vt >= v_first_vt
      and queued.vt <= due_by
    order by queued.vt
    limit 1;

    -- Locked in a statement of its own: a subquery with limit and skip locked may run twice, and claim too many.
    if v_first_due is null then
        v_claimed := array(
            select queued.msg_id
            from pgmq.%1$I as queued
            where queued.vt <= queued.enqueued_at
              and queued.vt <= due_by
              and queued.msg_id >= v_first_msg_id
              and (v_contained is null or queued.message @> v_contained)
            order by queued.msg_id
            limit qty
            for update skip locked
        );
    else
        v_claimed := array(
            select visible.msg_id
            from (
                select *
                from (
                    select queued.msg_id
                    from pgmq.%1$I as queued
                    where queued.vt <= queued.enqueued_at
                      and queued.vt <= due_by
                      and queued.msg_id >= v_first_msg_id
                      and (v_contained is null or queued.message @> v_contained)
                    order by queued.msg_id
                    limit qty
                    for update skip locked
                ) as ready
                union all
                select *
                from (
                    select queued.msg_id
                    from pgmq.%1$I as queued
                    where queued.msg_id = any (array(
                            select deferred.msg_id
                            from pgmq.%1$I as deferred
                            where deferred.vt > deferred.enqueued_at
                              and deferred.vt >= v_first_due
                              and deferred.vt <= due_by
                            order by deferred.vt
                            limit greatest(qty, v_due_max)
                        ))
                      and queued.vt <= due_by
                      and (v_contained is null or queued.message @> v_contained)
                    order by queued.msg_id
                    limit qty
                    for update skip locked
                ) as due
            ) as visible
            order by visible.msg_id
            limit qty
        );
    end if;

    if v_head is null then
        v_ready_blocks := pg_stat_get_xact_blocks_fetched(v_ready_idx) - v_ready_blocks;
        v_deferred_blocks := pg_stat_get_xact_blocks_fetched(v_deferred_idx) - v_deferred_blocks;
        if greatest(v_ready_blocks, v_deferred_blocks) > v_blocks_max + cardinality(v_claimed) / 100 then
            v_head := array[
                v_now_s + greatest(
                    v_rest_min_s, least(extract(epoch from clock_timestamp() - due_by) * v_rest, v_rest_max_s)
                ),
                case when v_ready_blocks > v_blocks_max then v_first_msg_id::float8 else '-infinity' end,
                case when v_deferred_blocks > v_blocks_max then 0.0::float8 else '-infinity' end
            ];
        end if;
    end if;
    if v_head is not null then
        -- Every ready message was considered, so none is ready below the first.
        if v_head[2] > '-infinity' and v_first_due is null and v_contained is null and v_claimed <> '{}' then
            v_head[2] := greatest(v_claimed[1] - v_slack_ids, v_first_msg_id);
        end if;
        if v_head[3] > '-infinity' then
            v_head[3] := extract(epoch from coalesce(v_first_due, due_by)) - v_slack_s;
        end if;
        perform set_config(%2$L, array_to_string(v_head, ' '), false);
    elsif v_setting <> '' then
        perform set_config(%2$L, '', false);
    end if;

    -- An update returns rows unordered, so each statement sorts them. The range of ids repeats the array in a form that
    -- allows partition pruning.
    if v_claimed = '{}' then
        return;
    elsif remove then
        return query
        with popped as (
            delete from pgmq.%1$I as queued
            where queued.msg_id = any (v_claimed)
              and queued.msg_id between v_claimed[1] and v_claimed[cardinality(v_claimed)]
            returning queued.msg_id, queued.read_ct, queued.enqueued_at, queued.last_read_at, queued.vt,
                queued.message, queued.headers
        )
        select * from popped order by popped.msg_id;
    elsif cardinality(v_claimed) = 1 then
        -- The usual return columns, an eighth faster.
        return query
        update pgmq.%1$I as queued
        set last_read_at = due_by,
            vt = due_by + hide_for,
            read_ct = least(queued.read_ct::bigint + 1, 2147483647)::integer
        where queued.msg_id = v_claimed[1]
        returning queued.msg_id, queued.read_ct, queued.enqueued_at, queued.last_read_at, queued.vt,
            queued.message, queued.headers;
    else
        return query
        with delivered as (
            update pgmq.%1$I as queued
            set last_read_at = due_by,
                vt = due_by + hide_for,
                -- An overflow would fail this read and every later read of the queue.
                read_ct = least(queued.read_ct::bigint + 1, 2147483647)::integer
            where queued.msg_id = any (v_claimed)
              and queued.msg_id between v_claimed[1] and v_claimed[cardinality(v_claimed)]
            returning queued.msg_id, queued.read_ct, queued.enqueued_at, queued.last_read_at, queued.vt,
                queued.message, queued.headers
        )
        select * from delivered order by delivered.msg_id;
    end if;
end;
$body$;
    v_settler_comment constant text := 'The settler of a queue: what pgmq.delete and pgmq.archive do with one message, planned once.';
    v_settler constant text := $settler$
begin
    if remove then
        delete from pgmq.%1$I as queued
        where queued.msg_id = settled_id
          and (queued.read_ct = fence or fence is null)
          and (queued.enqueued_at = enqueued_fence or enqueued_fence is null);
    else
        with moved as (
            delete from pgmq.%1$I as queued
            where queued.msg_id = settled_id
              and (queued.read_ct = fence or fence is null)
              and (queued.enqueued_at = enqueued_fence or enqueued_fence is null)
            returning queued.msg_id, queued.read_ct, queued.enqueued_at, queued.last_read_at, queued.vt,
                queued.message, queued.headers
        )
        insert into pgmq.%7$I (msg_id, read_ct, enqueued_at, last_read_at, vt, message, headers)
        select moved.msg_id, moved.read_ct, moved.enqueued_at, moved.last_read_at, moved.vt, moved.message, moved.headers
        from moved;
    end if;
    return found;
end;
$settler$;
begin
    return query
        select q.name, concat_ws(
            '; ',
            case when is_current.text is not true then format(
                'create or replace function pgmq.%I(%s) returns %s language plpgsql %s as %L',
                f.name, f.arguments, f.result,
                (select string_agg('set ' || replace(s, '=', ' = '), ' ') from unnest(v_settings) as s), wanted.body
            ) end,
            case when is_current.comment is not true then
                format('comment on function pgmq.%I(%s) is %L', f.name, f.types, f.comment)
            end,
            case when is_current.rights is not true then
                format('revoke execute on function pgmq.%I(%s) from public', f.name, f.types)
            end,
            case when is_current.rights is not true then (
                select string_agg(format('grant execute on function pgmq.%I(%s) to %s', f.name, f.types, r.oid::regrole), '; ')
                from unnest(v_roles) as r (oid)
            ) end
        )
        from unnest(queue_names) as q (name)
        cross join lateral (
            select pgmq.format_table_name(q.name, 'q'), pgmq.format_table_name(q.name, 'a')
        ) as tables (queue, archive)
        cross join lateral (
            select exists (
                select from pg_class as c where c.oid = to_regclass(format('pgmq.%I', tables.queue)) and c.relkind = 'p'
            )
        ) as kind (is_partitioned)
        cross join lateral (values
            (
                tables.queue, v_types, v_body, v_comment,
                'due_by timestamp with time zone, hide_for interval, qty integer, conditional jsonb, remove boolean',
                'SETOF pgmq.message_record'
            ),
            (
                tables.archive, 'bigint, integer, timestamp with time zone, boolean',
                case when not kind.is_partitioned then v_settler end, v_settler_comment,
                'settled_id bigint, fence integer, enqueued_fence timestamp with time zone, remove boolean', 'boolean'
            )
        ) as f (name, types, body, comment, arguments, result)
        left join pg_proc as p
            on p.pronamespace = 'pgmq'::regnamespace
            and p.proname = f.name::name
            and oidvectortypes(p.proargtypes) = f.types
        cross join lateral (
            select format(
                f.body, tables.queue,
                coalesce(
                    -- After a restore the table has another oid, which must not make its reader outdated.
                    substring(p.prosrc from E'sluice\\.head_[0-9a-f]{32}'),
                    -- The head belongs to this table: a later one of the same name has its own.
                    format('sluice.head_%s', md5(format('%s %s', tables.queue, to_regclass(format('pgmq.%I', tables.queue))::oid)))
                ),
                format('pgmq.%I', tables.queue || '_ready_idx'), format('pgmq.%I', tables.queue || '_vt_idx'),
                (not kind.is_partitioned)::text, format(v_ready, tables.queue), tables.archive
            )
        ) as wanted (body)
        left join lateral (
            select array_agg(a.grantee) as roles
            from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
            where a.privilege_type = 'EXECUTE'
        ) as granted on true
        cross join lateral (
            select
                p.prosrc = wanted.body
                    and p.proconfig = v_settings
                    and p.provolatile = 'v'
                    and not p.prosecdef
                    and pg_get_function_arguments(p.oid) = f.arguments
                    and pg_get_function_result(p.oid) = f.result,
                obj_description(p.oid, 'pg_proc') = f.comment,
                granted.roles @> v_roles and 0::oid <> all (granted.roles)
        ) as is_current (text, comment, rights)
        where f.body is not null
          and (is_current.text and is_current.comment and is_current.rights) is not true;
end;
$$;

comment on function pgmq._outdated_readers(text[]) is
    'List the functions of queues, reader and settler, that differ from this release, with the statements that correct them.';
revoke execute on function pgmq._outdated_readers(text[]) from public;
grant execute on function pgmq._outdated_readers(text[]) to sluice_admin;
