-- Finds the next groups whose head, the lowest id of the group, is visible.
--
-- An unread message is blocked while a later one of its group is in flight: it committed after that one was delivered,
-- and must not be handled concurrently with it.
--
-- With the indexes of create_fifo_index, three steps, each only if the previous one did not find enough:
--   1. the first ready messages and the first due ones, by msg_id, give the groups; the index gives their heads;
--   2. if there are few groups, a loose index scan over all groups, which skips ready messages of blocked groups;
--   3. further ready messages, up to the number needed.
-- The cost is that of the groups returned; beyond 1,000 groups also that of the ready messages of blocked groups in
-- front. Without the indexes it is one pass over the queue.
--
-- The state (seen, walked_to, ended) is what the previous call returned; initially '{}', null, false. Groups that were
-- returned or found blocked are not returned a second time. Calls: _fifo_key_sql. Reads: the queue's table.
create or replace function pgmq._next_groups(
    queue_table text, due_by timestamptz, wanted integer, indexed boolean,
    inout seen bigint[], inout walked_to bigint, inout ended boolean, out keys bigint[], out heads bigint[]
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_due_max integer := 1000;
    v_due integer;
    v_due_left boolean := true;
    v_groups_max constant integer := 1000;
    v_piece_max constant integer := 32768;
    v_walk_max constant integer := 4096;
    v_piece integer := least(greatest(wanted::bigint * 2, 64), 1024)::integer;
    v_scanned bigint := 0;
    v_ahead bigint;
    v_walked integer;
    v_key text := pgmq._fifo_key_sql('q');
    v_begun boolean := walked_to is null;
    v_exact integer;
    v_exact_before integer := -1;
    v_new bigint[];
    v_new_keys bigint[];
    v_new_heads bigint[];
    -- Bounds instead of an equality, here and below: then only the index of groups has the required order, and outdated
    -- statistics cannot make the planner scan the whole primary key or hash all messages in flight.
    v_judge text := format(
        'select array_agg(head.key),
            array_agg(head.key order by head.msg_id) filter (where head.readable),
            array_agg(head.msg_id order by head.msg_id) filter (where head.readable)
         from (
            select head.key, head.msg_id,
                head.vt <= $1 and (head.read_ct > 0 or not exists (
                    select
                    from pgmq.%1$I as q
                    where %2$s between head.key and head.key and q.read_ct > 0 and q.vt > $1
                )) as readable
            from head
         ) as head',
        queue_table, v_key
    );
    v_first text;
    v_few text;
begin
    keys := '{}';
    heads := '{}';
    if ended then
        return;
    end if;
    if not indexed then
        execute format(
            'select array_agg(found.key order by found.msg_id), array_agg(found.msg_id order by found.msg_id)
             from (
                select distinct on (1) %2$s as key, q.msg_id, q.vt, q.read_ct,
                    bool_or(q.read_ct > 0 and q.vt > $1) over (partition by %2$s) as in_flight
                from pgmq.%1$I as q
                order by 1, q.msg_id
             ) as found
             where found.vt <= $1 and (found.read_ct > 0 or not found.in_flight)',
            queue_table, v_key
        )
        into keys, heads
        using due_by;
        keys := coalesce(keys, '{}');
        heads := coalesce(heads, '{}');
        ended := true;
        return;
    end if;

    v_first := format(
        'with piece as materialized (
            select %2$s as key, q.msg_id
            from pgmq.%1$I as q
            where q.vt <= q.enqueued_at and q.vt <= $1 and q.msg_id > $3
            order by q.msg_id
            limit $4
        ),
        due as materialized (
            select %2$s as key
            from pgmq.%1$I as q
            where q.vt > q.enqueued_at and q.vt <= $1
            order by q.vt
            limit $5
        ),
        named as (
            select piece.key from piece union all select due.key from due
        ),
        head as materialized (
            select named.key, first.msg_id, first.vt, first.read_ct
            from (select distinct named.key from named where named.key <> all ($2)) as named
            cross join lateral (
                select q.msg_id, q.vt, q.read_ct
                from pgmq.%1$I as q
                where %2$s between named.key and named.key
                order by %2$s, q.msg_id
                limit 1
            ) as first
        )
        select judged.*, (select count(*) from piece), coalesce((select max(piece.msg_id) from piece), $3), (select count(*) from due)
        from (%3$s) as judged',
        queue_table, v_key, v_judge
    );
    v_few := format(
        'with recursive step as (
            select 1 as number, first.*
            from (
                select %2$s as key, q.msg_id, q.vt, q.read_ct from pgmq.%1$I as q order by %2$s, q.msg_id limit 1
            ) as first
            union all
            select step.number + 1, following.*
            from step
            cross join lateral (
                select %2$s as key, q.msg_id, q.vt, q.read_ct
                from pgmq.%1$I as q
                where %2$s > step.key
                order by %2$s, q.msg_id
                limit 1
            ) as following
            where step.number <= $3
        ),
        every as materialized (select * from step),
        head as (
            select * from every where (select count(*) from every) <= $3 and every.key <> all ($2)
        )
        select (select count(*) from every) <= $3, judged.* from (%3$s) as judged',
        queue_table, v_key, v_judge
    );
    walked_to := coalesce(walked_to, -9223372036854775808);
    loop
        execute v_first
        into v_new, v_new_keys, v_new_heads, v_walked, walked_to, v_due
        using due_by, seen, walked_to, v_piece, case when v_due_left then v_due_max else 0 end;
        seen := seen || v_new;
        keys := keys || v_new_keys;
        heads := heads || v_new_heads;
        v_due_left := v_due_left and v_due = v_due_max;
        ended := v_walked < v_piece and not v_due_left;
        -- A due message may be far ahead: it counts once the scan has reached it.
        select count(*) into v_exact from unnest(heads) as head where head <= walked_to or v_walked < v_piece;
        exit when ended or v_exact >= wanted;
        -- Estimate the distance from the groups found so far, and scan two to five times as far, as their density may
        -- change.
        v_scanned := v_scanned + v_walked;
        v_ahead := wanted * v_scanned / greatest(v_exact, 1) - v_scanned;
        if v_begun and (v_exact = v_exact_before or v_exact > 0 and v_ahead > v_walk_max) then
            execute v_few into ended, v_new, v_new_keys, v_new_heads using due_by, seen, v_groups_max;
            if ended then
                seen := seen || v_new;
                keys := keys || v_new_keys;
                heads := heads || v_new_heads;
                exit;
            end if;
            v_begun := false;
        end if;
        v_exact_before := v_exact;
        v_piece := least(greatest(least(v_ahead * 5 / 4, v_scanned * 4), v_scanned, 64), v_piece_max)::integer;
        v_due_max := least(v_due_max::bigint * 4, 1073741824)::integer;
    end loop;
    select coalesce(array_agg(found.key order by found.head), '{}'), coalesce(array_agg(found.head order by found.head), '{}')
    into keys, heads
    from unnest(keys, heads) as found (key, head);
end;
$$;

comment on function pgmq._next_groups(text, timestamptz, integer, boolean, bigint[], bigint, boolean) is
    'Find the next groups whose head is visible, oldest head first: at least wanted, if they exist.';
revoke execute on function pgmq._next_groups(text, timestamptz, integer, boolean, bigint[], bigint, boolean) from public;
grant execute on function pgmq._next_groups(text, timestamptz, integer, boolean, bigint[], bigint, boolean)
    to sluice_admin, sluice_reader;
