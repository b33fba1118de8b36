/*
 * Every queue has a function of its own, its reader, by the name of its table: the heart of pgmq.read and pgmq.pop, in plain
 * SQL on this one table. PostgreSQL keeps its plans from call to call. The same as dynamic SQL is planned anew each time,
 * which took five times longer than all the rest of a read of one message. README.md explains the two indexes and the head.
 *
 * The reader works with its caller's rights. It belongs to the owner of the schema, whoever creates the queue, because
 * every installation replaces it (readers.sql).
 *
 * Calls: nothing. Writes: the reader.
 */
create or replace function pgmq._create_reader(queue_name text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text := pgmq.format_table_name(queue_name, 'q');
    -- The head belongs to this table: another one of the same name has its own.
    v_setting text := format('sluice.head_%s', md5(format('%s %s', v_queue, to_regclass(format('pgmq.%I', v_queue))::oid)));
    v_role name;
    v_body constant text := $body$
declare
    -- The head, as this session remembers it: until when it holds (seconds since 1970), from which msg_id on there are
    -- ready messages, and from which vt (seconds) on deferred ones.
    v_head float8[] := string_to_array(nullif(current_setting(%2$L, true), ''), ' ');
    -- It says nothing about what is changed before it later on. So it is used only where a look from the beginning passes
    -- many entries, a thousand of which take about 0.2 ms, and no longer than it takes for such looks to be a small part of
    -- the work. The server counts the entries; where track_counts is off, and in partitions, there is no head.
    v_entries_max constant bigint := 5000;
    v_rest constant float8 := 20;
    v_rest_max_s constant float8 := 10;
    v_ready_idx constant oid := to_regclass(%3$L);
    v_deferred_idx constant oid := to_regclass(%4$L);
    v_entries bigint := pg_stat_get_xact_tuples_returned(v_ready_idx) + pg_stat_get_xact_tuples_returned(v_deferred_idx);
    -- And it stays this far behind what was seen, so that transactions of the usual length need not wait for that look.
    v_slack_ids constant bigint := 1000;
    v_slack_s constant float8 := 0.2;
    -- What is due beyond this number is taken in the order in which it became due: sorting all of it by msg_id would make
    -- each read pay for the whole of it.
    v_due_max constant bigint := 1000;

    v_now_s float8 := extract(epoch from due_by);
    v_first_msg_id bigint := -9223372036854775808;
    v_first_vt timestamptz := '-infinity';
    v_first_due timestamptz;
    v_contained jsonb := nullif(conditional, '{}');
    v_claimed bigint[];
begin
    if v_head[1] between v_now_s and v_now_s + v_rest_max_s then
        v_first_msg_id := v_head[2];
        v_first_vt := to_timestamp(v_head[3]);
    else
        v_head := null;
    end if;

    select queued.vt
    into v_first_due
    from pgmq.%1$I as queued
    where queued.vt > queued.enqueued_at
      and queued.vt >= v_first_vt
      and queued.vt <= due_by
    order by queued.vt
    limit 1;

    -- Locked by a statement of its own: a subquery with limit and skip locked may run twice, and claim too many.
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
        v_entries := pg_stat_get_xact_tuples_returned(v_ready_idx) + pg_stat_get_xact_tuples_returned(v_deferred_idx)
            - v_entries;
        if v_entries > v_entries_max + 2 * cardinality(v_claimed) then
            v_head := array[
                v_now_s + least(extract(epoch from clock_timestamp() - due_by) * v_rest, v_rest_max_s), v_first_msg_id, 0
            ];
        end if;
    end if;
    if v_head is not null then
        -- Below the first ready message nothing was ready, if every one was looked at.
        if v_first_due is null and v_contained is null and v_claimed <> '{}' then
            v_head[2] := greatest(v_claimed[1] - v_slack_ids, v_first_msg_id);
        end if;
        v_head[3] := extract(epoch from coalesce(v_first_due, due_by)) - v_slack_s;
        perform set_config(%2$L, array_to_string(v_head, ' '), false);
    end if;

    -- Rows that were changed come in no order, so each statement sorts them. The range of ids says the same as the array, in
    -- words by which partitions are left out.
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
        -- What most readers ask for, and an eighth faster.
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
                -- One more at the end of the range would fail, and with it every read of the queue.
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
begin
    -- One plan for all quantities, and always along the indexes: a plan for the few rows of today would meet a million
    -- tomorrow. A bitmap has no order, and would collect all of them first.
    execute format(
        'create or replace function pgmq.%I(
            due_by timestamptz, hide_for interval, qty integer, conditional jsonb, remove boolean
        )
        returns setof pgmq.message_record
        language plpgsql
        set search_path = pg_catalog, pg_temp
        set plan_cache_mode = force_generic_plan
        set enable_seqscan = off
        set enable_bitmapscan = off
        as %L',
        v_queue, format(
            v_body, v_queue, v_setting, format('pgmq.%I', v_queue || '_ready_idx'), format('pgmq.%I', v_queue || '_vt_idx')
        )
    );
    execute format(
        'comment on function pgmq.%I(timestamptz, interval, integer, jsonb, boolean) is %L',
        v_queue, 'The reader of a queue: what pgmq.read and pgmq.pop do, planned once.'
    );
    execute format('revoke execute on function pgmq.%I(timestamptz, interval, integer, jsonb, boolean) from public', v_queue);
    foreach v_role in array array['sluice_admin', 'sluice_reader']
    loop
        if to_regrole(v_role::text) is not null then
            execute format(
                'grant execute on function pgmq.%I(timestamptz, interval, integer, jsonb, boolean) to %I', v_queue, v_role
            );
        end if;
    end loop;
end;
$$;

comment on function pgmq._create_reader(text) is
    'Create the function that reads one queue, or replace it by that of this release.';
revoke execute on function pgmq._create_reader(text) from public;
grant execute on function pgmq._create_reader(text) to sluice_admin;
